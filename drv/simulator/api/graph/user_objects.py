"""Driver calls about user objects."""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver as cuda

from drv.simulator.driver_call import OK, SUCCESS, call, host_address, integer, invalid_value, unsigned
from drv.simulator.graphs.book import GraphBook, UserObject

_MOST = (1 << 31) - 1
_NO_DESTRUCTOR_SYNC = int(cuda.CUuserObject_flags.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
_MOVE = int(cuda.CUuserObjectRetain_flags.CU_GRAPH_USER_OBJECT_MOVE)


class UserObjectCalls(GraphBook):
    """``cuUserObject*``, ``cuGraph*UserObject``."""

    @call(1)
    def cuUserObjectCreate(self, ptr: Any, destroy: Any, initialRefcount: Any, flags: Any) -> tuple[Any, ...]:
        pointer, function, count = host_address(ptr), integer(destroy), _count(initialRefcount)
        if function == 0 or unsigned(flags, 32) != _NO_DESTRUCTOR_SYNC:
            raise invalid_value()
        user_object = UserObject(self.new_handle(), pointer, function, count)
        self.user_objects[user_object.handle] = user_object
        return SUCCESS, cuda.CUuserObject(user_object.handle)

    @call()
    def cuUserObjectRetain(self, object: Any, count: Any) -> tuple[Any, ...]:  # noqa: A002 - the bindings' name
        self.user_object(object).references += _count(count)
        return OK

    @call()
    def cuUserObjectRelease(self, object: Any, count: Any) -> tuple[Any, ...]:  # noqa: A002 - the bindings' name
        user_object, number = self.user_object(object), _count(count)
        if number > user_object.references:
            raise invalid_value()
        self.release_user_object(user_object, number)
        return OK

    @call()
    def cuGraphRetainUserObject(self, graph: Any, object: Any, count: Any, flags: Any) -> tuple[Any, ...]:  # noqa: A002 - the bindings' name
        owner, user_object, number = self.graph(graph), self.user_object(object), _count(count)
        bits = unsigned(flags, 32)
        if bits & ~_MOVE:
            raise invalid_value()
        if not bits:
            user_object.references += number
        owner.references[user_object] = owner.references.get(user_object, 0) + number
        return OK

    @call()
    def cuGraphReleaseUserObject(self, graph: Any, object: Any, count: Any) -> tuple[Any, ...]:  # noqa: A002 - the bindings' name
        owner, user_object, number = self.graph(graph), self.user_object(object), _count(count)
        held = owner.references.get(user_object, 0)
        if number > held:
            raise invalid_value()
        owner.references[user_object] = held - number
        if held == number:
            del owner.references[user_object]
        self.release_user_object(user_object, number)
        return OK


def _count(count: Any) -> int:
    number = unsigned(count, 32)
    if not 0 < number <= _MOST:
        raise invalid_value()
    return number
