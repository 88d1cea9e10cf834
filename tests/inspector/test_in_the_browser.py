"""The pages in a real Chromium: every action, hostile content, keys, a narrow screen, and nothing asked of others."""

from __future__ import annotations

from typing import Any

from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from tenfold.core.record.message import Message
from tenfold.session import Session, SessionAddress
from tenfold.store.access import create_key
from tenfold.store.base import Store
from tests.engine.making import make_reply, make_user_message
from tests.inspector.browser import Browser
from tests.inspector.conftest import Keeper
from tests.inspector.sessions import DETAIL, RULE, append_summary, make_hostile_session, make_session

PATHS = ("", "/seen", "/blocks", "/facts", "/instructions", "/search", "/bill", "/compare")


def assert_untroubled(browser: Browser) -> None:
    """The browser complained of nothing, and asked nobody but the pages."""
    assert not browser.list_problems()
    strangers = [
        url for url in browser.list_requests() if not url.startswith((browser.base, "about:", "data:", "chrome:"))
    ]
    assert not strangers


def test_from_the_list_to_a_message_and_back_with_the_keys(browser: Browser, store: Store) -> None:
    session = make_session(store)
    make_session(store, "other")
    append_summary(session, 2, 20, "what was done at first")
    browser.go("/")
    browser.wait_for_text("%", ".sessions td.size")
    browser.fill("#words", "other")
    browser.press("form button", "Find")
    browser.wait_for_text("1 session,")
    browser.go("/")
    browser.press(".sessions a", "The work of work")
    browser.wait_for_path("/session?")
    browser.press("#list .row", RULE[:12])
    browser.wait_for_text(DETAIL, "#reader")
    browser.driver.execute_script("document.activeElement.blur()")
    for key in "jjk":
        browser.find("body").send_keys(key)
    assert browser.find("#list .row.chosen").get_attribute("id") == "e1"
    browser.find("#list .row.chosen").send_keys("\n")
    browser.wait_for_text("I begin.", "#reader")
    browser.find("body").send_keys("/")
    browser.press(".tabs a", "Search")
    browser.fill("#words", "8443")
    browser.press("form button", "Search")
    assert browser.read(".hits mark") == "8443"
    browser.press(".hits a", "entry 0")
    browser.wait_for_text(DETAIL, "#reader")
    assert_untroubled(browser)


def test_the_keys_lead_through_every_page(browser: Browser, store: Store) -> None:
    session = make_session(store)
    make_session(store, "other")

    def press(*keys: str) -> WebElement:
        for key in keys:
            browser.driver.switch_to.active_element.send_keys(key)
        return browser.driver.switch_to.active_element

    browser.go("/")
    assert "other" in press("j").text
    assert "work" in press("j").text
    assert "other" in press("k").text
    browser.go("/session?id=work")
    stops = browser.driver.execute_script(
        "return [...document.querySelectorAll('#list, #list *')].filter(e => e.tabIndex >= 0)"
    )
    assert [each.get_attribute("id") for each in stops] == ["e0"]
    assert press("j", Keys.ARROW_DOWN).get_attribute("id") == "e1"
    press(Keys.ENTER)
    browser.wait_for_text("I begin.", "#reader")
    browser.wait(lambda: browser.driver.switch_to.active_element.get_attribute("id") == "reader")
    assert press(Keys.ESCAPE).get_attribute("id") == "e1"
    press("/")
    browser.wait_for_path("/session/search")
    browser.wait(lambda: browser.driver.switch_to.active_element.get_attribute("id") == "words")
    press("parser", Keys.ENTER)
    browser.wait_for_text("entry 0", ".hits")
    browser.find("body").click()
    assert press("j").text == "entry 0"
    browser.go("/bill")
    press("/")
    browser.wait(lambda: browser.driver.switch_to.active_element.get_attribute("id") == "words")
    assert session.view.length
    assert_untroubled(browser)


def test_a_compaction_is_previewed_run_and_undone(browser: Browser, store: Store) -> None:
    key, _ = create_key("ann", "default", 1)
    store.save_key(key)  # so that the store keeps a record
    session = make_session(store)
    before = session.view.get_messages()
    browser.go("/session?id=work")
    browser.press(".buttons button", "Compact")
    browser.fill("dialog input[name=to]", "30%")
    browser.press("dialog button", "Preview")
    browser.wait_for_text("tokens in place of", "dialog")
    assert browser.find_all("dialog .planned rect.changed")
    assert session.refresh().get_messages() == before  # a preview changes nothing
    browser.press("dialog button", "Compact")
    browser.wait_for_path("/session/seen")
    assert session.refresh().state.live_blocks
    browser.wait_for_text("replaced")
    browser.press(".buttons button", "Undo the newest")
    browser.wait_for_text("tokens in place of", "dialog")
    browser.press("dialog button", "Undo")
    browser.wait_for_path("/session/blocks")
    assert session.refresh().get_messages() == before
    assert [(line.source, line.action) for line in store.read_record() if line.action != "read"] == [
        ("inspector", "compact"), ("inspector", "undo"),
    ]  # fmt: skip
    assert_untroubled(browser)


def test_an_older_compaction_is_undone_and_the_newer_one_stays(browser: Browser, store: Store) -> None:
    session = make_session(store)
    append_summary(session, 2, 9, "first summary")
    append_summary(session, 14, 20, "second summary")
    browser.go("/session/blocks?id=work")
    browser.press("table tr:last-child button", "Undo")
    browser.wait_for_text("1 newer compaction stays in force", "dialog")
    browser.press("dialog button", "Undo")
    browser.wait(lambda: "first summary" not in str(session.refresh().get_messages()))
    assert "second summary" in str(session.view.get_messages())
    browser.press(".node summary", "summary")
    browser.wait(lambda: browser.find_all(".node .inner .row"))
    assert_untroubled(browser)


def test_a_summary_is_written_again_with_more_room(browser: Browser, store: Store) -> None:
    session = make_session(store, steps=60)
    session.compact(to="15%")
    newest = session.conversation.find_newest_block_id()
    browser.go("/session?id=work")
    browser.press(".buttons button", "Rewrite")
    browser.fill("dialog input[name=tokens]", "900")
    browser.press("dialog button", "Rewrite")
    browser.wait(lambda: find_newest_block(session) != newest)
    browser.wait_for_path("/session/seen")
    redone = session.view.find_newest_block()
    assert redone is not None
    assert redone.redone_block == newest
    assert_untroubled(browser)


def test_a_message_is_pinned_and_purged(browser: Browser, store: Store, keeper: Keeper) -> None:
    session = make_session(store)
    browser.go("/session?id=work&at=0")
    browser.press("#reader button", "Pin")
    browser.wait_for_text("sent with every request", "dialog")
    browser.press("dialog button", "Pin")
    browser.wait(lambda: 0 in session.refresh().state.pins)
    browser.wait_for_text("pinned", "#reader")
    browser.press("#reader button", "Unpin")
    browser.press("dialog button", "Unpin")
    browser.wait(lambda: 0 not in session.refresh().state.pins)
    browser.wait_for_path("/session?")
    browser.press("#reader button", "Purge")
    browser.wait_for_text("cannot be undone", "dialog")
    browser.press("dialog input[type=checkbox]")
    browser.press("dialog button", "Purge")
    browser.wait(lambda: DETAIL not in str(session.refresh().get_messages()))
    assert keeper.purged == ["work"]
    browser.go("/session?id=work")
    browser.press(".buttons button", "Purge")
    browser.press("dialog input[type=checkbox]")
    browser.press("dialog button", "Purge")
    browser.wait_for_text("holds no session yet")
    assert store.read_info("default", "work") is None
    assert_untroubled(browser)


def test_a_forgotten_rule_is_found_and_restored(browser: Browser, store: Store) -> None:
    session = make_session(store)
    session.drop_rule(RULE)
    browser.go("/session/instructions?id=work")
    browser.wait_for_text("dropped")
    browser.fill("#rule", "Never push to main, ask first.")
    browser.press("form button", "Add")
    browser.wait(lambda: "Never push to main, ask first." in list_rules(session))
    browser.press(".rules form button", "Drop")
    browser.wait(lambda: "Never push to main, ask first." not in list_rules(session))
    assert_untroubled(browser)


def test_a_hidden_rule_is_made_one_and_the_next_compaction_tells_the_model(browser: Browser, store: Store) -> None:
    session = make_session(store, steps=60)
    append_summary(session, 2, 60, "what was done at first")
    browser.go("/session?id=work&at=4")
    browser.wait_for_text("Replaced by a summary with", "#reader")
    browser.go("/session?id=work&at=2")
    assert not browser.find("#keep-text").is_displayed()
    browser.press("#reader a", "keep it as a rule")
    browser.wait(lambda: browser.find("#keep-text").is_displayed())
    browser.go("/session?id=work&at=0")
    browser.press("#reader summary", "Keep it as a rule")
    browser.fill("#keep-text", "Ask before each release.")
    browser.press("#reader details button", "Add")
    browser.wait_for_text("The model sees that with the next one")
    assert "Ask before each release." in browser.driver.switch_to.active_element.text
    browser.go("/session?id=work")
    browser.wait_for_text("not in what the model sees")
    assert "Ask before each release." not in str(session.refresh().get_messages())
    browser.press(".notice button", "Compact")
    browser.fill("dialog input[name=to]", "20%")
    browser.press("dialog button", "Preview")
    browser.wait_for_text("does not know of it yet", "dialog")
    browser.press("dialog button.main", "Compact anew")
    browser.wait_for_path("/session/seen")
    browser.wait_for_text("Must-keep facts in view", ".made")
    assert browser.driver.switch_to.active_element.get_attribute("id") == "made"
    assert "Ask before each release." in str(session.refresh().get_messages())
    assert_untroubled(browser)


def find_newest_block(session: Session) -> str | None:
    """The id of the newest Block in force, by what the store says now."""
    session.refresh()
    return session.conversation.find_newest_block_id()


def list_rules(session: Session) -> list[str]:
    """The rules in force, by what the store says now."""
    session.refresh()
    return [each.text for each in session.read_instructions() if each.is_rule]


def test_hostile_texts_do_nothing(browser: Browser, store: Store) -> None:
    make_hostile_session(store)
    browser.go("/")
    browser.press(".sessions a")
    browser.wait_for_path("/session?")
    address = browser.driver.current_url.removeprefix(f"{browser.base}/session")
    for path in PATHS:
        browser.go(f"/session{path}{address}")
        assert browser.driver.title != "broken"
        assert not browser.find_all("main img, main b + script")
    browser.go(f"/session{address}&at=2")
    browser.wait_for_text("more characters", "#reader")
    browser.press("#reader a", "Show all of it")
    browser.wait(lambda: "more characters" not in browser.read("#reader"))
    assert browser.driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    assert_untroubled(browser)


def test_a_narrow_dark_screen_shows_all_without_scrolling_aside(browser: Browser, store: Store) -> None:
    session = make_session(store, steps=60)
    session.compact(to="20%")
    session.add_rule("Ask before each release, and say in the notes of the release whom you asked.")
    browser.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 375, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    )
    scheme = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
    for path in ("/", *(f"/session{each}?id=work" for each in PATHS)):
        browser.go(path)
        assert browser.driver.execute_script("return document.documentElement.scrollWidth") <= 375, path
        colour = browser.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert max(map(int, colour.removeprefix("rgb(").removesuffix(")").split(","))) < 60, path


def list_named_nodes(browser: Browser) -> list[dict[str, Any]]:
    """Lists what a screen reader is told of the page, or nothing as long as it is told of the page alone."""
    nodes: list[dict[str, Any]] = browser.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    return nodes if len(nodes) > 1 else []


def test_whatever_can_be_reached_has_a_name_for_a_screen_reader(browser: Browser, store: Store) -> None:
    session = make_session(store)
    session.compact(to="30%")
    for path in ("/", *(f"/session{each}?id=work&at=3" for each in PATHS)):
        browser.go(path)
        nodes = browser.wait(lambda: list_named_nodes(browser))
        for node in nodes:
            properties = {each["name"]: each["value"].get("value") for each in node.get("properties", [])}
            if properties.get("focusable") and not node.get("ignored"):
                role = node["role"]["value"]
                assert role == "RootWebArea" or node.get("name", {}).get("value"), (path, node)
        assert [n["role"]["value"] for n in nodes].count("main") == 1


def test_a_list_of_many_pieces_loads_what_is_looked_at(browser: Browser, store: Store) -> None:
    session = Session.create(SessionAddress(store, "long"), "tenfold")
    for batch in range(3):
        session.append(*(make_message(batch * 1_000 + n) for n in range(1_000)))
    browser.go("/session?id=long")
    assert browser.driver.execute_script("return document.querySelectorAll('.list .row').length") == 200
    browser.driver.execute_script("const l = document.getElementById('list'); l.scrollTop = l.scrollHeight")
    browser.find("#e2999")
    assert len(browser.find_all(".list .row")) <= 1_000
    assert_untroubled(browser)


def test_what_the_model_sees_is_loaded_down_to_its_last_message(browser: Browser, store: Store) -> None:
    session = make_session(store, steps=130)
    session.append(make_user_message("The very last words."))
    last = len(session.view.get_messages()) - 1
    browser.go("/session/seen?id=work")
    assert not browser.find_all(f"#v{last}")

    def scroll() -> bool:
        left = browser.find_all(".seen > [hx-get]")
        if left:
            browser.driver.execute_script("arguments[0].scrollIntoView()", left[0])
        return not left

    browser.wait(scroll)
    assert [each.get_attribute("id") for each in browser.find_all(".said")] == [f"v{n}" for n in range(last + 1)]
    assert_untroubled(browser)


def make_message(number: int) -> Message:
    """A message of the user or of the model, by turns."""
    return make_user_message(f"question {number}") if number % 2 == 0 else make_reply(f"answer {number}")
