package ingest

// arenaPieceBytes is the size of an arena's pieces, and of the rest below which one is given up.
const arenaPieceBytes = 1 << 20

// arena is memory that keys and runs of a batch are cut from. What was cut is valid until reset.
type arena struct {
	pieces [][]byte
	at     int // piece in use
	used   int // bytes cut since the reset
}

// cut lets write append to the arena and returns what it wrote.
func (a *arena) cut(write func(dst []byte) []byte) []byte {
	if a.at < len(a.pieces) && cap(a.pieces[a.at])-len(a.pieces[a.at]) < arenaPieceBytes/16 {
		a.at++
	}
	if a.at == len(a.pieces) {
		a.pieces = append(a.pieces, make([]byte, 0, arenaPieceBytes))
	}
	piece := &a.pieces[a.at]
	start := len(*piece)
	*piece = write(*piece) // a new piece if it does not fit: what was cut of the old one is not touched
	a.used += len(*piece) - start
	return (*piece)[start:len(*piece):len(*piece)]
}

func (a *arena) reset() {
	for i := range a.pieces {
		a.pieces[i] = a.pieces[i][:0]
	}
	a.at, a.used = 0, 0
}
