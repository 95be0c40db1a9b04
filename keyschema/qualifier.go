package keyschema

import (
	"encoding/binary"
	"fmt"
)

// QualifierKind is the first byte of a qualifier in the samples family. The values are stored on disk: never change
// them. Runs sort before samples, so that a reader that folds a row in cell order meets the winners last.
type QualifierKind byte

const (
	// KindRun is a packed run: 'r' and a 4-byte big-endian sequence; of two runs the one with the higher sequence
	// wins.
	KindRun QualifierKind = 'r'
	// KindSample is a single sample: 's' and its 4-byte big-endian offset in the hour in milliseconds. If samples were deleted
	// before it was written, the 4-byte big-endian sequence of the last deletion follows, which is not 0: of two samples with
	// one offset the one with the higher sequence wins.
	KindSample QualifierKind = 's'
	// KindMark says that single samples came after their hour could have been packed: 'r', four bytes 0xff and the 8
	// bytes of a random number. It holds no samples. Marks sort behind all runs and before all samples, so that one range
	// of qualifiers covers the marks and the runs from some sequence on.
	KindMark QualifierKind = 'm'

	// RunSeqMax is the highest sequence of a run.
	RunSeqMax = 1<<32 - 2

	qualifierBytes = 5
	laterBytes     = qualifierBytes + 4
	markBytes      = qualifierBytes + 8
	markSeq        = 1<<32 - 1
)

// Qualifier is a parsed column qualifier. OffsetMs belongs to KindSample, Seq to KindRun and to KindSample, Mark to
// KindMark; the others are 0.
type Qualifier struct {
	Kind          QualifierKind
	OffsetMs, Seq uint32
	Mark          uint64
}

// AppendSampleQualifier appends the qualifier of the sample offsetMs < HourMs after the start of its row's hour.
func AppendSampleQualifier(dst []byte, offsetMs uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, byte(KindSample)), offsetMs)
}

// AppendLaterSampleQualifier is AppendSampleQualifier of a sample that is written after the deletion with a sequence; 0 means
// that there was none.
func AppendLaterSampleQualifier(dst []byte, offsetMs, seq uint32) []byte {
	dst = AppendSampleQualifier(dst, offsetMs)
	if seq == 0 {
		return dst
	}
	return binary.BigEndian.AppendUint32(dst, seq)
}

// AppendRunQualifier appends the qualifier of the packed run number seq of its row.
func AppendRunQualifier(dst []byte, seq uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, byte(KindRun)), seq)
}

// AppendMarkQualifier appends the qualifier of a mark with a random number.
func AppendMarkQualifier(dst []byte, mark uint64) []byte {
	return binary.BigEndian.AppendUint64(AppendRunQualifier(dst, markSeq), mark)
}

// ParseQualifier parses a qualifier of the samples family. All errors wrap [ErrBadQualifier].
func ParseQualifier(q []byte) (Qualifier, error) {
	if len(q) == markBytes && q[0] == byte(KindRun) && binary.BigEndian.Uint32(q[1:]) == markSeq {
		return Qualifier{Kind: KindMark, Mark: binary.BigEndian.Uint64(q[qualifierBytes:])}, nil
	}
	seq := uint32(0)
	if len(q) == laterBytes && q[0] == byte(KindSample) {
		if seq = binary.BigEndian.Uint32(q[qualifierBytes:]); seq == 0 {
			return Qualifier{}, fmt.Errorf("%w: a sample behind deletion 0", ErrBadQualifier)
		}
		q = q[:qualifierBytes]
	}
	if len(q) != qualifierBytes {
		return Qualifier{}, fmt.Errorf("%w: %d bytes, want %d", ErrBadQualifier, len(q), qualifierBytes)
	}
	n := binary.BigEndian.Uint32(q[1:])
	switch kind := QualifierKind(q[0]); kind {
	case KindRun:
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
