package flush

// arenaPieceBytes is the size of an arena's pieces.
const arenaPieceBytes = 1 << 20

// Arena is the memory of the keys and values of one batch.
type Arena struct {
	pieces [][]byte
	at     int // piece in use
	used   int // bytes appended since the reset
}

// Append calls write, which appends to the arena, and returns the bytes that it appended. They are valid until Reset.
func (a *Arena) Append(write func(dst []byte) []byte) []byte {
	if a.at < len(a.pieces) && cap(a.pieces[a.at])-len(a.pieces[a.at]) < arenaPieceBytes/16 {
		a.at++
	}
	if a.at == len(a.pieces) {
		a.pieces = append(a.pieces, make([]byte, 0, arenaPieceBytes))
	}
	piece := &a.pieces[a.at]
	start := len(*piece)
	*piece = write(*piece) // append allocates a new piece if the bytes do not fit and leaves the old one in place
	a.used += len(*piece) - start
	return (*piece)[start:len(*piece):len(*piece)]
}

// SizeBytes is the number of bytes appended since the last Reset.
func (a *Arena) SizeBytes() int64 { return int64(a.used) }

// Reset drops all bytes and keeps the memory for the next ones.
func (a *Arena) Reset() {
	for i := range a.pieces {
		a.pieces[i] = a.pieces[i][:0]
	}
	a.at, a.used = 0, 0
}
