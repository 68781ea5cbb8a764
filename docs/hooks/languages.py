"""Points the language switch, and hreflang, at the same page in the other language.

Both languages use the same paths, so the link is known when the page is built and needs
neither JavaScript nor a sitemap.
"""


def on_page_context(context, page, config, nav):
    config.extra["alternate"] = [
        {**language, "link": f"../{language['lang']}/{page.url}"}
        for language in config.extra["alternate"]
    ]
    return context


def on_post_page(output, page, config):
    # The theme's script asks each <link rel=alternate> for a sitemap, which only the two front
    # pages have. A space, without meaning in a list of words, hides the links from its selector.
    return output.replace('<link rel="alternate" ', '<link rel="alternate " ')
