package index

import (
	"encoding/binary"
	"errors"
	"strconv"

	"halite/keyschema"
	"halite/storage/index/presence"
)

// Row keys and qualifiers of the catalogue; FORMAT.md draws them.

const (
	dayDigits = 6 // days are written as six digits of dayMax − day, so that newer days sort first

	rootPrefix      = "#d#" // rows of a day's root; a metric cannot begin with '#', it would be escaped
	journalPrefix   = "#j#" // rows of a day's journal
	monthRootPrefix = "#m#" // rows of a month's root

	labelSetPrefix = "labelset#"
)

// Kinds of cells: the first byte of a qualifier. Stored on disk, never renumber.
const (
	qualRoot    = 'r' // root row: the period's current generation and directory
	qualIntent  = 'i' // root row: a fold is or was under way
	qualBlock   = 'b' // block row: 'b' gen column chunk
	qualHeader  = 'h' // dictionary row: 'h' gen
	qualValues  = 'v' // dictionary row: 'v' gen chunk
	qualSets    = 'w' // dictionary row: 'w' gen chunk
	qualPart    = 'p' // journal row
	qualGen     = 'g' // root row of tables with several writers: the root's generation alone
	qualTagList = 't' // label set row in TableMeta
)

// kindWriterPart is what parseSpecial calls the journal rows of one of several writers; it is not stored.
const kindWriterPart = 'P'

const (
	writerMark   = 'w'
	writerDigits = 16
)

var errBadCatalogueKey = errors.New("not a catalogue key")

func journalKey(day int64, seq uint32) []byte {
	k := append(appendDay([]byte(journalPrefix), day), '#')
	return appendHex(k, seq)
}

// writerPartKey is the row of a part that one of several writers wrote. They sort behind the parts without a writer.
func writerPartKey(day int64, writer string, seq uint32) []byte {
	k := append(appendDay([]byte(journalPrefix), day), '#', writerMark)
	return appendHex(append(append(k, writer...), '#'), seq)
}

// parseWriter reads the writer of a part that has one.
func parseWriter(key []byte) string {
	at := len(journalPrefix) + dayDigits + 2
	return string(key[at : at+writerDigits])
}

// blockKey is the row of the block whose first metric is given; dictKey that of a label's dictionary.
func blockKey(metric string, p presence.Partition, part uint32) []byte {
	k := periodKey(metric, p)
	if part == 0 {
		return k
	}
	return appendHex(append(k, '#'), part)
}

func dictKey(name string, p presence.Partition) []byte { return periodKey(name, p) }

func periodKey(s string, p presence.Partition) []byte {
	k := make([]byte, 0, len(s)+9)
	return appendPeriod(append(keyschema.AppendEscaped(k, s), '#'), p)
}

func labelSetKey(hash string) []byte { return append([]byte(labelSetPrefix), hash...) }

func appendDay(dst []byte, day int64) []byte {
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
		return 0, errBadCatalogueKey
	}
	v := int64(0)
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, errBadCatalogueKey
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

// parseSpecial reads a root or journal row key.
func parseSpecial(key []byte) (kind byte, p presence.Partition, seq uint32, err error) {
	if len(key) < len(rootPrefix)+dayDigits {
		return 0, 0, 0, errBadCatalogueKey
	}
	prefix, rest := string(key[:len(rootPrefix)]), key[len(rootPrefix):]
	n, err := parseDay(rest[:dayDigits])
	if err != nil {
		return 0, 0, 0, err
	}
	day := presence.DayPartition(n)
	rest = rest[dayDigits:]
	switch {
	case prefix == rootPrefix && len(rest) == 0:
		return qualRoot, day, 0, nil
	case prefix == monthRootPrefix && len(rest) == 0:
		return qualRoot, presence.MonthPartition(n), 0, nil
	case prefix == journalPrefix && len(rest) == 9 && rest[0] == '#':
		v, err := strconv.ParseUint(string(rest[1:]), 16, 32)
		if err != nil {
			return 0, 0, 0, errBadCatalogueKey
		}
		return qualPart, day, uint32(v), nil
	case prefix == journalPrefix && len(rest) == writerDigits+11 && rest[0] == '#' && rest[1] == writerMark:
		v, err := strconv.ParseUint(string(rest[writerDigits+3:]), 16, 32)
		if err != nil || rest[writerDigits+2] != '#' || checkWriter(string(rest[2:writerDigits+2])) != nil {
			return 0, 0, 0, errBadCatalogueKey
		}
		return kindWriterPart, day, uint32(v), nil
	}
	return 0, 0, 0, errBadCatalogueKey
}

func genQualifier(kind byte, gen uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{kind}, gen)
}

func chunkQualifier(kind byte, gen, chunk uint32) []byte {
	return binary.BigEndian.AppendUint32(genQualifier(kind, gen), chunk)
}

// columnQualifier addresses a chunk of a block's column; column 0 chunk 0 is the block's header.
func columnQualifier(gen uint32, column, chunk int) []byte {
	q := binary.BigEndian.AppendUint16(genQualifier(qualBlock, gen), uint16(column))
	return binary.BigEndian.AppendUint16(q, uint16(chunk))
}

// qualifierGen returns the generation of a block's or dictionary's cell; ok is false for cells without one.
func qualifierGen(q []byte) (gen uint32, ok bool) {
	if len(q) < 5 {
		return 0, false
	}
	switch q[0] {
	case qualBlock, qualHeader, qualValues, qualSets:
		return binary.BigEndian.Uint32(q[1:5]), true
	}
	return 0, false
}

// rootKey is the row of the period's root.
func rootKey(p presence.Partition) []byte {
	if p.IsMonth() {
		return appendDay([]byte(monthRootPrefix), p.Number())
	}
	return appendDay([]byte(rootPrefix), int64(p))
}

// appendPeriod appends what a row key says of the period.
func appendPeriod(dst []byte, p presence.Partition) []byte {
	if p.IsMonth() {
		dst = append(dst, 'm')
	}
	return appendDay(dst, p.Number())
}
