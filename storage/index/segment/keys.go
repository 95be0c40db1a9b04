package segment

import (
	"encoding/binary"
	"errors"
	"strconv"

	"halite/keyschema"
	"halite/storage/index/presence"
)

// Row keys and qualifiers of the index; FORMAT.md draws them.

const (
	dayDigits = 6 // a day is six digits of dayMax − day, so that newer days sort first

	ManifestPrefix      = "#d#" // rows of the manifests of days; no metric begins with '#', which escaping replaces
	JournalPrefix       = "#j#" // rows of a day's journal
	MonthManifestPrefix = "#m#" // rows of the manifests of months

	LabelSetPrefix = "labelset#"
)

// Kinds of cells: the first byte of a qualifier. They are stored, so never renumber them.
const (
	QualManifest = 'r' // manifest row: the partition's current generation and directory
	QualIntent   = 'i' // manifest row: a compaction is running or was interrupted
	QualBlock    = 'b' // block row: 'b' gen column chunk
	qualHeader   = 'h' // dictionary row: 'h' gen
	QualValues   = 'v' // dictionary row: 'v' gen chunk
	qualSets     = 'w' // dictionary row: 'w' gen chunk
	QualRecord   = 'p' // journal row
	QualGen      = 'g' // manifest row of tables with several writers: the generation alone
	QualTagList  = 't' // label set row in TableMeta
)

// KindWriterRecord is the kind of journal rows with a writer. It is not stored.
const KindWriterRecord = 'P'

const (
	WriterMark   = 'w'
	writerDigits = 16
)

var ErrBadKey = errors.New("not an index key")

func JournalKey(day int64, seq uint32) []byte {
	k := append(AppendDay([]byte(JournalPrefix), day), '#')
	return appendHex(k, seq)
}

// WriterRecordKey returns the row of a record with a writer. These rows sort after the records without a writer.
func WriterRecordKey(day int64, writer string, seq uint32) []byte {
	k := append(AppendDay([]byte(JournalPrefix), day), '#', WriterMark)
	return appendHex(append(append(k, writer...), '#'), seq)
}

// ParseWriter returns the writer of a record that has a writer.
func ParseWriter(key []byte) string {
	at := len(JournalPrefix) + dayDigits + 2
	return string(key[at : at+writerDigits])
}

// blockKey returns the row of a block, by its first metric; dictKey returns the row of a label's dictionary.
func blockKey(metric string, p presence.Partition, part uint32) []byte {
	k := partitionKey(metric, p)
	if part == 0 {
		return k
	}
	return appendHex(append(k, '#'), part)
}

func dictKey(name string, p presence.Partition) []byte { return partitionKey(name, p) }

func partitionKey(s string, p presence.Partition) []byte {
	k := make([]byte, 0, len(s)+9)
	return appendPartition(append(keyschema.AppendEscaped(k, s), '#'), p)
}

func LabelSetKey(hash string) []byte { return append([]byte(LabelSetPrefix), hash...) }

func AppendDay(dst []byte, day int64) []byte {
	v := presence.DayMax - day
	var d [dayDigits]byte
	for i := dayDigits - 1; i >= 0; i-- {
		d[i] = byte('0' + v%10)
		v /= 10
	}
	return append(dst, d[:]...)
}

func parseDay(s []byte) (int64, error) {
	if len(s) != dayDigits {
		return 0, ErrBadKey
	}
	v := int64(0)
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, ErrBadKey
		}
		v = v*10 + int64(c-'0')
	}
	return presence.DayMax - v, nil
}

const hexDigits = "0123456789abcdef"

func appendHex(dst []byte, v uint32) []byte {
	for shift := 28; shift >= 0; shift -= 4 {
		dst = append(dst, hexDigits[v>>uint(shift)&15])
	}
	return dst
}

// ParseKey parses the key of a manifest or journal row.
func ParseKey(key []byte) (kind byte, p presence.Partition, seq uint32, err error) {
	if len(key) < len(ManifestPrefix)+dayDigits {
		return 0, 0, 0, ErrBadKey
	}
	prefix, rest := string(key[:len(ManifestPrefix)]), key[len(ManifestPrefix):]
	n, err := parseDay(rest[:dayDigits])
	if err != nil {
		return 0, 0, 0, err
	}
	day := presence.DayPartition(n)
	rest = rest[dayDigits:]
	switch {
	case prefix == ManifestPrefix && len(rest) == 0:
		return QualManifest, day, 0, nil
	case prefix == MonthManifestPrefix && len(rest) == 0:
		return QualManifest, presence.MonthPartition(n), 0, nil
	case prefix == JournalPrefix && len(rest) == 9 && rest[0] == '#':
		v, err := strconv.ParseUint(string(rest[1:]), 16, 32)
		if err != nil {
			return 0, 0, 0, ErrBadKey
		}
		return QualRecord, day, uint32(v), nil
	case prefix == JournalPrefix && len(rest) == writerDigits+11 && rest[0] == '#' && rest[1] == WriterMark:
		v, err := strconv.ParseUint(string(rest[writerDigits+3:]), 16, 32)
		if err != nil || rest[writerDigits+2] != '#' || CheckWriter(string(rest[2:writerDigits+2])) != nil {
			return 0, 0, 0, ErrBadKey
		}
		return KindWriterRecord, day, uint32(v), nil
	}
	return 0, 0, 0, ErrBadKey
}

func GenQualifier(kind byte, gen uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{kind}, gen)
}

func chunkQualifier(kind byte, gen, chunk uint32) []byte {
	return binary.BigEndian.AppendUint32(GenQualifier(kind, gen), chunk)
}

// columnQualifier is the qualifier of a chunk of a block's column. Column 0, chunk 0 is the block's header.
func columnQualifier(gen uint32, column, chunk int) []byte {
	q := binary.BigEndian.AppendUint16(GenQualifier(QualBlock, gen), uint16(column))
	return binary.BigEndian.AppendUint16(q, uint16(chunk))
}

// QualifierGen returns the generation of a block's or dictionary's cell; ok is false for cells without one.
func QualifierGen(q []byte) (gen uint32, ok bool) {
	if len(q) < 5 {
		return 0, false
	}
	switch q[0] {
	case QualBlock, qualHeader, QualValues, qualSets:
		return binary.BigEndian.Uint32(q[1:5]), true
	}
	return 0, false
}

// ManifestKey returns the row of the partition's manifest.
func ManifestKey(p presence.Partition) []byte {
	if p.IsMonth() {
		return AppendDay([]byte(MonthManifestPrefix), p.Number())
	}
	return AppendDay([]byte(ManifestPrefix), int64(p))
}

// appendPartition appends the partition to a row key.
func appendPartition(dst []byte, p presence.Partition) []byte {
	if p.IsMonth() {
		dst = append(dst, 'm')
	}
	return AppendDay(dst, p.Number())
}
