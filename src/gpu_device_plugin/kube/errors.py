"""What can go wrong with the Kubernetes API.

::

    UserError
    └── KubeError
        ├── AccessError      kubeconfig or service account cannot be used (also a ConfigError)
        ├── ApiUnreachable   there was no answer: name, connection, TLS, time limit
        └── ApiError         the API answered with a status other than success
"""

from __future__ import annotations

from http import HTTPStatus

from gpu_device_plugin.errors import ConfigError, UserError

LONGEST = 500
"""Characters of a message of the API that are shown."""


class KubeError(UserError):
    """Anything that goes wrong with the Kubernetes API."""


class AccessError(KubeError, ConfigError):
    """It is not known how to reach the API, or as whom.

    Where access is first looked for, another option or another pod is wanted. Out of a request it is
    one more reason to try again, as files of tokens and certificates are read anew for each.
    """


class ApiUnreachable(KubeError):
    """The API gave no answer, or half of one; whether it did what was asked is not known."""


class ApiError(KubeError):
    """The API answered that it does not do what was asked."""

    def __init__(
        self,
        request: str,
        status: int,
        reason: str = "",
        message: str = "",
        retry_after: float = 0.0,
    ) -> None:
        self.request = request
        """Method and path."""
        self.status = status
        """The HTTP status, or the code in a Status object."""
        self.reason = reason or _phrase(status)
        """The machine-readable reason, such as ``NotFound``."""
        self.api_message = message
        self.retry_after = retry_after
        """Seconds that the API asks to wait before the next attempt; 0 if it does not."""
        told = short_line(message)
        super().__init__(
            f"the Kubernetes API refused {request}: {status} {self.reason}"
            + (f": {told}" if told else ""),
            _HINTS.get(status, ""),
        )

    @property
    def is_not_found(self) -> bool:
        """Whether the object, or its kind, does not exist."""
        return self.status == HTTPStatus.NOT_FOUND

    @property
    def is_conflict(self) -> bool:
        """Whether somebody else was faster: the object has changed, or exists already."""
        return self.status == HTTPStatus.CONFLICT

    @property
    def is_gone(self) -> bool:
        """Whether a resource version is too old to be continued from."""
        return self.status == HTTPStatus.GONE

    @property
    def is_denied(self) -> bool:
        """Whether the program's own identity is the problem."""
        return self.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}

    @property
    def is_transient(self) -> bool:
        """Whether the server, not the request, is the problem."""
        return self.status >= 500 or self.status in {
            HTTPStatus.REQUEST_TIMEOUT,
            HTTPStatus.GONE,
            HTTPStatus.TOO_MANY_REQUESTS,
        }


_HINTS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "the token or certificate is not accepted: is it of this cluster, and current?",
    HTTPStatus.FORBIDDEN: "the program's service account lacks this right: see its ClusterRole",
}


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "unknown status"


def short_line(text: str, longest: int = LONGEST) -> str:
    """A text from outside in a message: on one line, printable, of limited length."""
    flat = " ".join(text.split())
    flat = "".join(char if char.isprintable() else "?" for char in flat)
    return flat if len(flat) <= longest else flat[: longest - 1] + "…"
