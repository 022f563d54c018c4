"""A broker module that follows a new configuration once sched-treepool has answered a guest."""

from flux.brokermod import BrokerModule, request_handler


class Curious(BrokerModule):
    """Asks what some job would get, on each new configuration."""

    @request_handler("config-reload")
    def reload(self, msg):
        """Respond when there is an answer."""
        core = {"type": "core", "count": 1}
        slot = {"type": "slot", "label": "default", "count": 1, "with": [core]}
        asked = self.handle.rpc(
            "sched-treepool.ask", {"resources": [slot], "duration": 60, "queue": "batch"}
        )
        asked.then(lambda future, _: self.answered(future, msg), None)

    def answered(self, future, msg):
        """Respond with what is wrong with the answer, if anything."""
        if future.get()["verdict"] == "now":
            self.handle.respond(msg, None)
        else:
            self.handle.respond_error(msg, 22, str(future.get()))
