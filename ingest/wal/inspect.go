package wal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"halite/ingest/wal/record"
)

// Inspect writes a listing of the log in dir for operators: watermark, files, damage, torn tail and, if verbose, every
// frame. It changes nothing and takes no lock, so the end of a running log may look torn. Damage is part of the listing, not
// an error.
func Inspect(fs vfs.FS, dir string, w io.Writer, verbose bool) error {
	layout, err := readLayout(fs, dir)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	in := inspection{out: out, verbose: verbose, kinds: make(map[byte]int64)}
	in.walker = walker{fs: fs, dir: dir, layout: layout, accept: true}
	in.visit, in.fileDone = in.frame, in.file
	if err := in.run(); err != nil {
		return errors.Join(err, out.Flush())
	}
	in.tail()
	return out.Flush()
}

type inspection struct {
	walker
	out     *bufio.Writer
	verbose bool
	// kinds and payloadBytes count the frames of the current file. lossesShown counts the losses written so far.
	kinds        map[byte]int64
	payloadBytes int64
	first, last  uint64
	lossesShown  int
}

func (in *inspection) frame(f *frame, inCheckpoint bool, at Position) error {
	if len(in.kinds) == 0 {
		in.first = f.seq
		if in.verbose {
			in.showLosses()
			name := segmentName(at.Segment)
			if inCheckpoint {
				name = checkpointName(at.Segment)
			}
			fmt.Fprintf(in.out, "%s, frame by frame:\n", name)
		}
	}
	in.last = f.seq
	in.kinds[f.kind]++
	in.payloadBytes += int64(len(f.payload))
	if !in.verbose {
		return nil
	}
	in.showLosses()
	_, err := fmt.Fprintf(in.out, "  %10d  frame %d  %s  %d B  %s\n",
		at.Offset, f.seq, record.KindName(f.kind), len(f.payload), record.Describe(f.kind, f.payload))
	return err
}

func (in *inspection) file(file walkedFile) {
	in.showLosses()
	fmt.Fprintf(in.out, "%s  %d B", file.name, file.sizeBytes)
	if abandoned := file.sizeBytes - file.endOffset; abandoned > 0 {
		fmt.Fprintf(in.out, " (%d B after the end)", abandoned)
	}
	fmt.Fprintf(in.out, "  %d frames", file.frames)
	if len(in.kinds) > 0 {
		fmt.Fprintf(in.out, " (%d to %d)", in.first, in.last)
	}
	for _, kind := range slices.Sorted(maps.Keys(in.kinds)) {
		fmt.Fprintf(in.out, "  %s %d", record.KindName(kind), in.kinds[kind])
	}
	fmt.Fprintf(in.out, "  payload %d B\n", in.payloadBytes)
	clear(in.kinds)
	in.payloadBytes = 0
}

func (in *inspection) showLosses() {
	for ; in.lossesShown < len(in.losses); in.lossesShown++ {
		loss := &in.losses[in.lossesShown]
		fmt.Fprintf(in.out, "DAMAGE: %v", &loss.Damage)
		if loss.ToOffset > 0 {
			fmt.Fprintf(in.out, "; readable again at byte %d", loss.ToOffset)
		}
		fmt.Fprintln(in.out)
	}
}

func (in *inspection) tail() {
	in.showLosses()
	if in.torn.bytes > 0 {
		fmt.Fprintf(in.out, "torn tail at %v: %d B, %d whole frames, never acknowledged\n",
			in.torn.at, in.torn.bytes, in.torn.frames)
	}
	for _, name := range in.obsolete {
		fmt.Fprintf(in.out, "%s  obsolete, removed at the next start\n", name)
	}
	if in.markOK {
		state := "the log is open or was not closed cleanly"
		if in.mark.clean {
			state = "the log was closed cleanly"
		}
		fmt.Fprintf(in.out, "watermark at %v, before frame %d; %s\n", in.mark.pos, in.mark.nextSeq, state)
	}
	if len(in.losses) == 0 {
		fmt.Fprintln(in.out, "no damage")
	}
}

// Scan reads the log in dir, calls visit for each readable frame and returns the damage. The payload is valid during the
// call. Scan changes nothing and takes no lock, so the server must be stopped.
func Scan(
	fs vfs.FS, dir string, visit func(kind byte, payload []byte, at Position) error,
) (losses []Loss, err error) {
	layout, err := readLayout(fs, dir)
	if err != nil {
		return nil, err
	}
	w := walker{fs: fs, dir: dir, layout: layout, accept: true}
	w.visit = func(f *frame, _ bool, at Position) error { return visit(f.kind, f.payload, at) }
	err = w.run()
	return w.losses, err
}
