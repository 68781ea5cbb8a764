"""What a page shows where it is shared, followed, cited or corrected."""

from io import BytesIO
from types import SimpleNamespace
from xml.etree import ElementTree

import address
import cards
import feed
import foot
import pages
import pytest
from mkdocs.exceptions import PluginError
from PIL import Image

ATOM = f"{{{feed.ATOM}}}"
HERE, THERE = "https://example.org/attnref", "https://github.com/owner/attention"
SITE, BOTH = {"Documentation": HERE}, {"Documentation": HERE, "Repository": THERE}


@pytest.fixture
def project(monkeypatch):
    """Writes these addresses into what pyproject.toml says."""
    told = address.project()

    def write(urls):
        known = {**told, "project": {**told["project"], "urls": urls}}
        for hook in (cards, feed, foot):
            monkeypatch.setattr(hook, "project", lambda: known)

    return write


@pytest.fixture
def config(tmp_path):
    return SimpleNamespace(
        docs_dir="docs/en",
        site_dir=str(tmp_path),
        site_name="attnref",
        site_description="A book.",
        site_url=f"{HERE}/en/",
        theme={"language": "en"},
    )


def page(title="Entropy & order", url="scale/entropy/"):
    path = pages.ROOT / "docs" / "en" / "scale" / "entropy.md"
    return SimpleNamespace(
        url=url,
        title=title,
        meta={"title": title, "description": "What <it> says."},
        canonical_url=f"{HERE}/en/{url}",
        file=SimpleNamespace(abs_src_path=str(path)),
    )


def test_a_page_can_be_cited(project, config, monkeypatch):
    project(SITE)
    monkeypatch.setattr(foot, "commit_date", lambda path: "2026-03-01")
    monkeypatch.setattr(foot, "short_commit", lambda: "12345678")
    version = address.project()["project"]["version"]
    assert foot.bibtex(page(), config).split("\n") == [
        "@misc{attnref-scale-entropy,",
        r"  title = {{Entropy \& order}},",
        "  author = {{The attnref authors}},",
        f"  howpublished = {{attnref {version}, 12345678}},",
        "  year = {2026},",
        "  month = {03},",
        "  langid = {english},",
        f"  url = {{{HERE}/en/scale/entropy/}},",
        "}",
    ]
    assert r"title = {{Entropy \&amp; order}}" in foot.on_page_content("", page(), config, None)
    whole = foot.on_page_markdown("By <!-- citation -->", page(), config, None)
    assert whole.startswith("By ```bibtex\n@misc{attnref,\n  title = {{attnref: scaled dot-product")
    assert (
        f"  year = {{2026}},\n  month = {{11}},\n  langid = {{english}},\n  url = {{{HERE}/en/"
        in whole
    )
    # Outside of a clone, on a site without an address.
    monkeypatch.setattr(foot, "commit_date", lambda path: "")
    monkeypatch.setattr(foot, "short_commit", lambda: "")
    here = page()
    here.canonical_url = None
    assert "year" not in foot.bibtex(here, config)
    assert "url" not in foot.bibtex(here, config)
    assert f"howpublished = {{attnref {version}}}," in foot.bibtex(here, config)


@pytest.mark.parametrize(
    ("urls", "link"),
    [
        ({}, "../../reference/contributing/"),
        (BOTH, f"{THERE}/issues/new?title=en%2Fscale%2Fentropy%2F%3A+"),
        (
            {"Repository": "https://gitlab.com/owner/attention"},
            "https://gitlab.com/owner/attention/-/issues/new?title=en%2Fscale%2Fentropy%2F%3A+",
        ),
    ],
)
def test_a_correction_goes_where_it_is_read(project, config, urls, link):
    project(urls)
    shown = foot.on_page_content("<p>text</p>", page(), config, None)
    assert shown.startswith('<p>text</p><div class="foot"')
    assert f'<a href="{link}">Suggest a correction</a>' in shown


def test_a_card_holds_the_title_of_its_page(project, config, tmp_path):
    project(SITE)
    shown = cards.on_post_page("<head></head>", page(), config)
    name = "cards/scale/entropy.png"
    assert f'<meta property="og:image" content="{HERE}/en/{name}">' in shown
    with Image.open(tmp_path / name) as card:
        assert card.size == (1200, 630)
    assert (tmp_path / name).read_bytes() == cards.png(
        cards.card("Entropy & order", "What <it> says.")
    )
    assert cards.png(cards.card("Entropy", "What <it> says.")) != (tmp_path / name).read_bytes()
    assert cards.address(page(url="")) == "cards/index.png"


def test_without_an_address_there_are_no_cards_and_no_feed(project, config, tmp_path):
    project({})
    assert "og:image" not in cards.on_post_page("<head></head>", page(), config)
    assert feed.on_post_page("<head></head>", page(), config) == "<head></head>"
    feed.on_nav(SimpleNamespace(pages=[page()]), config, None)
    feed.on_post_build(config)
    assert not list(tmp_path.iterdir())


def test_a_title_that_fits_no_card_stops_the_build():
    with pytest.raises(PluginError, match="too long for a card"):
        cards.card("a very long title " * 20, "")
    with pytest.raises(PluginError, match="the site's font has no 'ₖ'"):
        cards.card("Why √dₖ", "")


@pytest.mark.parametrize("language", ["pt", "en"])
def test_each_page_fits_its_card(language):
    for path in sorted((pages.ROOT / "docs" / language).rglob("*.md")):
        meta = pages.front_matter(path.read_text(encoding="utf-8"))
        card = cards.card(str(meta["title"]), str(meta["description"]))
        margin = cards.MARGIN // 2
        edge = [
            card.crop((cards.WIDTH - margin, 0, cards.WIDTH, cards.HEIGHT)),
            card.crop((0, cards.HEIGHT - margin // 2, cards.WIDTH, cards.HEIGHT)),
        ]
        assert all(len(part.getcolors()) == 1 for part in edge), path


def test_the_icon_is_the_favicon():
    with Image.open(BytesIO(cards.png(cards.icon(80)))) as icon:
        seen = icon.convert("RGB")
    paper, white = (20, 70, 107), (255, 255, 255)
    assert [seen.getpixel(place) for place in ((2, 2), (15, 15), (40, 40), (60, 20))] == [
        paper,
        white,
        white,
        paper,
    ]


def test_the_feed_has_the_pages_that_changed_last(project, config, tmp_path, monkeypatch):
    project(SITE)
    several = [page(f"Page {n}", f"scale/{n}/") for n in range(feed.LATEST + 5)]
    days = {id(each): f"2026-01-{n + 1:02}" for n, each in enumerate(several)}
    monkeypatch.setattr(feed, "path_of", id)
    monkeypatch.setattr(feed, "commit_date", days.get)
    monkeypatch.setattr(feed, "_pages", several)
    feed.on_post_build(config)
    root = ElementTree.parse(tmp_path / feed.NAME).getroot()
    entries = root.findall(f"{ATOM}entry")
    assert [each.findtext(f"{ATOM}title") for each in entries] == [
        f"Page {n}" for n in range(feed.LATEST + 4, 4, -1)
    ]
    assert root.findtext(f"{ATOM}updated") == "2026-01-25T00:00:00Z"
    assert entries[0].findtext(f"{ATOM}id") == f"{HERE}/en/scale/24/"
    assert entries[0].findtext(f"{ATOM}summary") == "What <it> says."
    shown = feed.on_post_page("<head></head>", several[0], config)
    assert f'type="application/atom+xml" href="{HERE}/en/feed.xml"' in shown
