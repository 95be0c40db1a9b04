package keyschema

import (
	"bytes"
	"errors"
	"testing"
)

func TestQualifierRoundTripAndOrder(t *testing.T) {
	var before []byte
	check := func(q []byte, want Qualifier) {
		t.Helper()
		if got, err := ParseQualifier(q); err != nil || got != want {
			t.Errorf("%q: %+v, %v", q, got, err)
		}
		if bytes.Compare(before, q) >= 0 {
			t.Errorf("%q is not behind %q", q, before)
		}
		before = q
	}
	for _, seq := range []uint32{0, 1, 255, 256, 1 << 31, 1<<32 - 1} {
		check(AppendChunkQualifier(nil, seq), Qualifier{Kind: KindChunk, Seq: seq})
	}
	for _, mark := range []uint64{0, 1, 1<<64 - 1} {
		check(AppendMarkQualifier(nil, mark), Qualifier{Kind: KindMark, Mark: mark})
	}
	for _, offset := range []uint32{0, 1, 255, 256, 15_000, HourMs - 1} {
		check(AppendSampleQualifier(nil, offset), Qualifier{Kind: KindSample, OffsetMs: offset})
		for _, seq := range []uint32{1, 255, 1<<32 - 1} {
			check(AppendLaterSampleQualifier(nil, offset, seq), Qualifier{Kind: KindSample, OffsetMs: offset, Seq: seq})
		}
	}
}

func FuzzParseQualifier(f *testing.F) {
	f.Add(AppendChunkQualifier(nil, 7))
	f.Add(AppendSampleQualifier(nil, HourMs-1))
	f.Add(AppendSampleQualifier(nil, HourMs))
	f.Add(AppendMarkQualifier(nil, 7))
	f.Add(AppendLaterSampleQualifier(nil, 7, 8))
	f.Add(append(AppendSampleQualifier(nil, 7), 0, 0, 0, 0))
	f.Add([]byte("q0000"))
	f.Add([]byte("s"))
	f.Fuzz(func(t *testing.T, text []byte) {
		q, err := ParseQualifier(text)
		if err != nil {
			if !errors.Is(err, ErrBadQualifier) {
				t.Fatalf("error %v", err)
			}
			return
		}
		again := AppendChunkQualifier(nil, q.Seq)
		switch q.Kind {
		case KindSample:
			again = AppendLaterSampleQualifier(nil, q.OffsetMs, q.Seq)
		case KindMark:
			again = AppendMarkQualifier(nil, q.Mark)
		}
		if !bytes.Equal(again, text) {
			t.Fatalf("%q is a second form of %q", text, again)
		}
	})
}
