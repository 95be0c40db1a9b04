package keyschema

import (
	"encoding/binary"
	"fmt"
)

// QualifierKind is the first byte of a qualifier in the samples family. The values are stored on disk: never change
// them. Chunks sort before samples, so a reader that merges a row in cell order reads the winning sample last.
type QualifierKind byte

const (
	// KindChunk is a chunk: 'r' and a 4-byte big-endian sequence. The chunk with the higher sequence wins.
	KindChunk QualifierKind = 'r'
	// KindSample is a single sample: 's' and its 4-byte big-endian offset in the hour, in milliseconds. If a deletion came
	// before the write, the 4-byte big-endian sequence of the last deletion follows; it is not 0. For equal offsets the
	// sample with the higher sequence wins.
	KindSample QualifierKind = 's'
	// KindMark marks a row with single samples that arrived after its hour was due for packing. Its qualifier is 'r', four
	// bytes 0xff and an 8-byte random number. A mark holds no samples. Marks sort after all chunks and before all samples.
	// So one range of qualifiers covers the marks and the chunks from a given sequence on.
	KindMark QualifierKind = 'm'

	// ChunkSeqMax is the highest sequence of a chunk.
	ChunkSeqMax = 1<<32 - 2

	qualifierBytes = 5
	laterBytes     = qualifierBytes + 4
	markBytes      = qualifierBytes + 8
	markSeq        = 1<<32 - 1
)

// Qualifier is a parsed column qualifier. KindSample sets OffsetMs and Seq, KindChunk sets Seq, and KindMark sets
// Mark. Other fields are 0.
type Qualifier struct {
	Kind          QualifierKind
	OffsetMs, Seq uint32
	Mark          uint64
}

// AppendSampleQualifier appends the qualifier of the sample offsetMs < HourMs after the start of its row's hour.
func AppendSampleQualifier(dst []byte, offsetMs uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, byte(KindSample)), offsetMs)
}

// AppendLaterSampleQualifier appends the qualifier of a sample written after the deletion with sequence seq; 0 means that
// no deletion came before.
func AppendLaterSampleQualifier(dst []byte, offsetMs, seq uint32) []byte {
	dst = AppendSampleQualifier(dst, offsetMs)
	if seq == 0 {
		return dst
	}
	return binary.BigEndian.AppendUint32(dst, seq)
}

// AppendChunkQualifier appends the qualifier of the chunk number seq of its row.
func AppendChunkQualifier(dst []byte, seq uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, byte(KindChunk)), seq)
}

// AppendMarkQualifier appends the qualifier of a mark with a random number.
func AppendMarkQualifier(dst []byte, mark uint64) []byte {
	return binary.BigEndian.AppendUint64(AppendChunkQualifier(dst, markSeq), mark)
}

// ParseQualifier parses a qualifier of the samples family. All errors wrap [ErrBadQualifier].
func ParseQualifier(q []byte) (Qualifier, error) {
	if len(q) == markBytes && q[0] == byte(KindChunk) && binary.BigEndian.Uint32(q[1:]) == markSeq {
		return Qualifier{Kind: KindMark, Mark: binary.BigEndian.Uint64(q[qualifierBytes:])}, nil
	}
	seq := uint32(0)
	if len(q) == laterBytes && q[0] == byte(KindSample) {
		if seq = binary.BigEndian.Uint32(q[qualifierBytes:]); seq == 0 {
			return Qualifier{}, fmt.Errorf("%w: a sample cannot follow deletion 0", ErrBadQualifier)
		}
		q = q[:qualifierBytes]
	}
	if len(q) != qualifierBytes {
		return Qualifier{}, fmt.Errorf("%w: %d bytes, want %d", ErrBadQualifier, len(q), qualifierBytes)
	}
	n := binary.BigEndian.Uint32(q[1:])
	switch kind := QualifierKind(q[0]); kind {
	case KindChunk:
		return Qualifier{Kind: kind, Seq: n}, nil
	case KindSample:
		if n >= HourMs {
			return Qualifier{}, fmt.Errorf("%w: offset %d ms is outside the hour", ErrBadQualifier, n)
		}
		return Qualifier{Kind: kind, OffsetMs: n, Seq: seq}, nil
	default:
		return Qualifier{}, fmt.Errorf("%w: unknown kind 0x%02x", ErrBadQualifier, q[0])
	}
}
