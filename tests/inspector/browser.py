"""What tests do in the browser: go to pages, press, fill in, read, and look at what the browser asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException, WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

T = TypeVar("T")
PATIENCE = 120.0
"""Seconds until something has to be there. It is never the measure of anything."""
REPLACED = "does not belong to the document"
"""What chromedriver says, as an unknown error, where the page replaced an element between finding and reading it."""


class Browser:
    """A Chromium on the pages at `base`."""

    def __init__(self, driver: webdriver.Chrome, base: str) -> None:
        self.driver, self.base = driver, base

    def go(self, path: str) -> None:
        """Opens a page."""
        self.driver.get(f"{self.base}{path}")

    def leave(self) -> None:
        """Forgets the cookies and the page, and reads the logs to their end."""
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        self.driver.get("about:blank")
        self.driver.get_log("performance")
        self.driver.get_log("browser")

    def wait(self, found: Callable[[], T]) -> T:
        """Waits until something true is found, and returns it."""

        def look(_: webdriver.Chrome) -> T | None:
            try:
                return found()
            except (NoSuchElementException, StaleElementReferenceException):
                return None
            except WebDriverException as error:
                if REPLACED not in str(error.msg):
                    raise
                return None

        found_at_last = WebDriverWait(self.driver, PATIENCE, 0.05).until(look)
        assert found_at_last is not None
        return found_at_last

    def find(self, selector: str) -> WebElement:
        """Finds an element, as soon as it is there."""
        return self.wait(lambda: self.driver.find_element(By.CSS_SELECTOR, selector))

    def find_all(self, selector: str) -> list[WebElement]:
        """Finds all elements that are there now."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def press(self, selector: str, text: str = "") -> None:
        """Presses the first element with this text, as soon as it can be pressed."""

        def press_it() -> bool:
            for each in self.find_all(selector):
                if each.is_displayed() and text in each.text:
                    each.click()
                    return True
            return False

        self.wait(press_it)

    def fill(self, selector: str, text: str) -> None:
        """Fills in a field."""

        def fill_it() -> bool:
            field = self.driver.find_element(By.CSS_SELECTOR, selector)
            field.clear()
            field.send_keys(text)
            return True

        self.wait(fill_it)

    def read(self, selector: str = "main") -> str:
        """Reads the visible text of an element."""
        return self.wait(lambda: self.driver.find_element(By.CSS_SELECTOR, selector).text)

    def wait_for_text(self, text: str, selector: str = "main") -> None:
        """Waits until an element shows a text."""
        self.wait(lambda: text in self.driver.find_element(By.CSS_SELECTOR, selector).text)

    def wait_for_path(self, path: str) -> None:
        """Waits until the browser is at a page and has loaded it."""
        self.wait(
            lambda: (
                self.driver.current_url.startswith(f"{self.base}{path}")
                and self.driver.execute_script("return document.readyState") == "complete"
            )
        )

    def list_requests(self) -> list[str]:
        """Lists the addresses that the browser has asked for since this was called last."""
        events = (json.loads(line["message"])["message"] for line in self.driver.get_log("performance"))
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def list_problems(self) -> list[str]:
        """Lists what the browser complained of: errors of scripts, refusals by the content policy, failed requests."""
        return [line["message"] for line in self.driver.get_log("browser") if line["level"] in ("SEVERE", "WARNING")]
