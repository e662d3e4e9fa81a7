"""Pages of huge tables: bounded counts, and a way past the last page."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.core.paginator import Paginator
from django.http import HttpRequest

from headgate_django.control.backlog import MAX_COUNT

if TYPE_CHECKING:
    AnyPaginator = Paginator[Any]
else:
    AnyPaginator = Paginator


class AtLeast(int):
    """A count that stopped at its bound; reads "10,000+" wherever Django's templates print it."""

    def __str__(self) -> str:
        # With thousand separators Django formats the digits itself and would misplace the sign.
        return int.__repr__(self) if settings.USE_THOUSAND_SEPARATOR else f"{int(self):,}+"


class BoundedPaginator(AnyPaginator):
    """Counts at most 10,001 rows, in the order of the list, and offers pages for the first 10,000."""

    bound = MAX_COUNT

    @cached_property
    def count(self) -> int:
        """How many rows there are, at most ``bound``."""
        # Sliced first: the order stays in the statement, so the same index serves the count and the page.
        rows: Any = self.object_list
        number: int = rows[: self.bound + 1].count()
        return AtLeast(self.bound) if number > self.bound else number


class ScreenChangeList(ChangeList):
    """Reads a page at once, lets the screen complete it, and finds the way past the last one."""

    beyond = ""
    """The query string of the rows behind this page, where there are more than the pages show."""

    def get_results(self, request: HttpRequest) -> None:
        """As Django's; then what the screen adds."""
        super().get_results(request)
        self.result_list = list(self.result_list)
        screen: Any = self.model_admin
        keyset = screen.keyset(request)
        if keyset and self.result_list and isinstance(self.result_count, AtLeast):
            last = getattr(self.result_list[-1], keyset.partition("__")[0])
            self.beyond = self.get_query_string({keyset: last}, remove=[PAGE_VAR])
        screen.complete(self.result_list)
