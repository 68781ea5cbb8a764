"""Names rooms and pages in the navigation, whose order both languages share."""


def on_nav(nav, config, files):
    sections = [item for item in nav.items if item.is_section]
    for section in sections:
        section.title = config.extra["rooms"][section.title]
        sections += [item for item in section.children if item.is_section]  # those of rooms, too
    return nav


def on_page_content(html, page, config, files):
    page.title = page.meta.get("nav", page.title)
    return html
