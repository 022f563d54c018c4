"""A real Chromium without a window, by the WebDriver protocol that its chromedriver speaks.

The protocol is JSON over HTTP, so Python's own library is enough: Debian's packages chromium and
chromium-driver are all that the tests need.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request

#: Keys by the names that the protocol gives them.
TAB, ENTER, ESCAPE = "\ue004", "\ue007", "\ue00c"
END, HOME, LEFT, UP, RIGHT, DOWN = "\ue010", "\ue011", "\ue012", "\ue013", "\ue014", "\ue015"

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def missing():
    """Which of the programs is not installed, or None."""
    names = ("chromedriver", ("chromium", "google-chrome"))
    for name in names:
        choices = (name,) if isinstance(name, str) else name
        if not any(map(shutil.which, choices)):
            return choices[0]
    return None


class Browser:
    """One headless Chromium with one page."""

    def __init__(self):
        self._driver = subprocess.Popen(
            ["chromedriver", "--port=0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for line in self._driver.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                break
        else:
            raise RuntimeError("chromedriver did not start")
        self._session = f"http://127.0.0.1:{found[1]}/session"
        arguments = [
            "--headless=new",
            "--disable-gpu",
            "--hide-scrollbars",
            "--disable-dev-shm-usage",
        ]
        if os.geteuid() == 0:  # as in most containers; Chromium's sandbox is not for root
            arguments.append("--no-sandbox")
        options = {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        answer = self._call("POST", "", {"capabilities": {"alwaysMatch": options}})
        self._session += f"/{answer['sessionId']}"

    def close(self):
        """End the browser and its driver."""
        try:
            self._call("DELETE", "")
        finally:
            self._driver.terminate()
            self._driver.wait(10)

    def open(self, path, width=1280, height=900, dark=False, touch=False):
        """Show file *path* in a window of that size; returns when it has loaded."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": touch}
        self.devtools("Emulation.setDeviceMetricsOverride", **size)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", features=[theme])
        self.complaints()
        self.requests()
        self._call("POST", "/url", {"url": f"file://{path}"})

    def devtools(self, command, **parameters):
        """What Chromium's own protocol answers to *command*."""
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def js(self, script, *arguments):
        """What *script*, a function's body, returns."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def click(self, selector):
        """Click on the first element that *selector* finds."""
        element = self._call("POST", "/element", {"using": "css selector", "value": selector})
        self._call("POST", f"/element/{element[ELEMENT]}/click", {})

    def press(self, *keys):
        """Press *keys* one after another, wherever the focus is."""
        pressed = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        actions = [{"type": "key", "id": "keyboard", "actions": pressed}]
        self._call("POST", "/actions", {"actions": actions})

    def point(self, selector):
        """Move the mouse to the first element that *selector* finds."""
        element = self._call("POST", "/element", {"using": "css selector", "value": selector})
        move = {"type": "pointerMove", "duration": 0, "origin": element, "x": 0, "y": 0}
        actions = [{"type": "pointer", "id": "mouse", "actions": [move]}]
        self._call("POST", "/actions", {"actions": actions})

    def texts(self, selector):
        """The visible texts of all elements that *selector* finds."""
        script = "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText)"
        return self.js(script, selector)

    def complaints(self):
        """What the browser's console says since the last call: errors, refusals by policy."""
        entries = self._call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries]

    def requests(self):
        """The addresses asked for since the last call."""
        entries = self._call("POST", "/se/log", {"type": "performance"})
        messages = [json.loads(entry["message"])["message"] for entry in entries]
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]

    def screenshot(self, path, whole=True):
        """Write a picture of the page to *path*."""
        parameters = {"captureBeyondViewport": whole}
        if whole:
            size = self.devtools("Page.getLayoutMetrics")["cssContentSize"]
            parameters["clip"] = {**size, "scale": 1}
        data = self.devtools("Page.captureScreenshot", **parameters)["data"]
        path.write_bytes(base64.b64decode(data))

    def _call(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self._session + path, data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as e:
            raise AssertionError(json.load(e)["value"]["message"]) from None
