"""What the caching allocator must decide and count, written as plainly as possible and without care for speed."""

from __future__ import annotations

from dataclasses import dataclass, field

UNIT, SMALL, MIB = 512, 1 << 20, 1 << 20


@dataclass
class Piece:
    address: int
    size: int
    requested: int = 0
    state: str = "free"


@dataclass
class ModelSegment:
    stream: int
    small: bool
    pieces: list[Piece]


@dataclass
class Quantity:
    current: int = 0
    peak: int = 0
    allocated: int = 0
    freed: int = 0

    def become(self, value: int) -> None:
        """Change to ``value``, counting the difference."""
        difference = value - self.current
        self.allocated += max(difference, 0)
        self.freed += max(-difference, 0)
        self.current = value
        self.peak = max(self.peak, value)


@dataclass
class Model:
    """Segments as lists of pieces. The addresses of new segments are told to it."""

    segments: list[ModelSegment] = field(default_factory=list)
    counts: dict[str, Quantity] = field(default_factory=dict)

    def fit(self, requested: int, stream: int) -> tuple[ModelSegment, Piece] | None:
        """The free piece to use: smallest, then parts of segments before whole ones, then by address."""
        size = self.rounded(requested)
        candidates = [
            (piece.size, len(segment.pieces) == 1, piece.address, segment, piece)
            for segment in self.segments
            if segment.stream == stream and segment.small == (size <= SMALL)
            for piece in segment.pieces
            if piece.state == "free" and piece.size >= size
        ]
        if not candidates:
            return None
        *_, segment, piece = min(candidates, key=lambda candidate: candidate[:3])
        return segment, piece

    @staticmethod
    def rounded(requested: int) -> int:
        return -(-requested // UNIT) * UNIT

    @staticmethod
    def segment_size(requested: int) -> int:
        size = Model.rounded(requested)
        if size <= SMALL:
            return 2 * MIB
        if size < 10 * MIB:
            return 20 * MIB
        return -(-size // (2 * MIB)) * 2 * MIB

    def add_segment(self, address: int, requested: int, stream: int) -> tuple[ModelSegment, Piece]:
        small = self.rounded(requested) <= SMALL
        piece = Piece(address, self.segment_size(requested))
        segment = ModelSegment(stream, small, [piece])
        self.segments.append(segment)
        # PyTorch counts the new segment's rest as split only once the block is cut off it.
        self._count(segment, "segment", 1)
        self._count(segment, "reserved_bytes", piece.size)
        return segment, piece

    def use(self, segment: ModelSegment, piece: Piece, requested: int) -> None:
        size = self.rounded(requested)
        rest = piece.size - size
        before = self._split(segment)
        if rest >= UNIT if segment.small else rest > SMALL:
            index = segment.pieces.index(piece)
            segment.pieces.insert(index + 1, Piece(piece.address + size, rest))
            piece.size = size
        piece.state, piece.requested = "live", requested
        self._recount_split(segment, before)
        for name, amount in self._amounts(piece).items():
            self._count(segment, name, amount)

    def free(self, address: int, *, pending: bool) -> None:
        segment, piece = self._find(address)
        self._count(segment, "allocation", -1)
        self._count(segment, "allocated_bytes", -piece.size)
        piece.state = "pending"
        if not pending:
            self.finish(address)

    def finish(self, address: int) -> None:
        segment, piece = self._find(address)
        self._count(segment, "active", -1)
        self._count(segment, "active_bytes", -piece.size)
        self._count(segment, "requested_bytes", -piece.requested)
        before = self._split(segment)
        piece.state = "free"
        merged: list[Piece] = []
        for part in segment.pieces:
            if merged and merged[-1].state == part.state == "free":
                merged[-1].size += part.size
            else:
                merged.append(part)
        segment.pieces = merged
        self._recount_split(segment, before)

    def release_unused(self) -> int:
        """Drop segments that are one free piece; how many bytes they had."""
        unused = [s for s in self.segments if len(s.pieces) == 1 and s.pieces[0].state == "free"]
        for segment in unused:
            self.segments.remove(segment)
            self._count(segment, "segment", -1)
            self._count(segment, "reserved_bytes", -segment.pieces[0].size)
        return sum(segment.pieces[0].size for segment in unused)

    def pending(self) -> list[int]:
        return [p.address for s in self.segments for p in s.pieces if p.state == "pending"]

    def layout(self) -> list[tuple[int, int, str]]:
        """Address, size and state of every piece, in order."""
        return sorted((p.address, p.size, p.state) for s in self.segments for p in s.pieces)

    def _find(self, address: int) -> tuple[ModelSegment, Piece]:
        return next((s, p) for s in self.segments for p in s.pieces if p.address == address)

    @staticmethod
    def _amounts(piece: Piece) -> dict[str, int]:
        return {
            "allocation": 1,
            "allocated_bytes": piece.size,
            "active": 1,
            "active_bytes": piece.size,
            "requested_bytes": piece.requested,
        }

    @staticmethod
    def _split(segment: ModelSegment) -> tuple[int, int]:
        free = [p.size for p in segment.pieces if p.state == "free" and len(segment.pieces) > 1]
        return len(free), sum(free)

    def _recount_split(self, segment: ModelSegment, before: tuple[int, int]) -> None:
        count, size = self._split(segment)
        self._count(segment, "inactive_split", count - before[0])
        self._count(segment, "inactive_split_bytes", size - before[1])

    def _count(self, segment: ModelSegment, name: str, amount: int) -> None:
        for pool in ("all", "small_pool" if segment.small else "large_pool"):
            quantity = self.counts.setdefault(f"{name}.{pool}", Quantity())
            quantity.become(quantity.current + amount)
