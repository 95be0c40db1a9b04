package cellkey

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/storage"
)

// logicalCell is the address of a cell in the contract.
type logicalCell struct {
	table    uint16
	family   uint8
	hourKeys bool
	key      string
	qual     string
	tsMs     int64
}

func (c logicalCell) layout() Layout { return Layout{HourKeys: c.hourKeys} }

func (c logicalCell) header() Header { return NewHeader(c.table, c.family, DayOf(c.tsMs)) }

func (c logicalCell) encode() []byte {
	return c.layout().Append(nil, c.header(), []byte(c.key), []byte(c.qual), c.tsMs)
}

// compareLogical is the order that physical keys must have.
func compareLogical(a, b logicalCell) int {
	return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.family, b.family),
		cmp.Compare(DayOf(b.tsMs), DayOf(a.tsMs)), cmp.Compare(a.key, b.key), cmp.Compare(a.qual, b.qual),
		cmp.Compare(b.tsMs, a.tsMs))
}

func (c logicalCell) valid() bool {
	schema := storage.TableSchema{HourKeys: c.hourKeys}
	return storage.CheckKey(&schema, []byte(c.key)) == nil && len(c.qual) <= storage.QualifierBytesMax && c.tsMs >= 0 &&
		c.tsMs <= storage.TsMsMax
}

// sometimes makes random values that are often equal or similar.
type sometimes struct{ *rand.Rand }

func (r sometimes) text(alphabet string, lengthMax int) string {
	b := make([]byte, r.IntN(lengthMax+1))
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}

func (r sometimes) cell(hourKeys bool) logicalCell {
	c := logicalCell{table: uint16(1 + r.IntN(2)), family: uint8(1 + r.IntN(2)), hourKeys: hourKeys}
	c.tsMs = []int64{0, 1, DayMs - 1, DayMs, 470_000*hourMs - 1, storage.TsMsMax}[r.IntN(6)]
	c.tsMs = max(c.tsMs-r.Int64N(2)*r.Int64N(100_000), 0)
	const alphabet = "\x00\x01\x02\x06a\xfd\xfe\xff"
	c.qual = r.text(alphabet, 3)
	if r.IntN(20) == 0 {
		c.qual = string(bytes.Repeat([]byte{7}, []int{56, 57, 58, 59, 60, 61, 62, 63, 64, 253, 16384}[r.IntN(11)]))
	}
	if !hourKeys {
		c.table += 10
		c.key = "\x00" + r.text(alphabet, 4)
		if r.IntN(2) == 0 {
			c.key = "a" + r.text(alphabet, 4)
		}
		return c
	}
	hour := []int64{0, 1, 470_000, 470_001, 9_999_999}[r.IntN(5)]
	c.key = fmt.Sprintf("%s#%s#%s#%07d", r.text(alphabet, 2), r.text("0", 1), r.text(alphabet, 2), hour)
	if r.IntN(2) == 0 {
		c.tsMs = (10_000_000-hour)*hourMs - 1
	}
	return c
}

func checkPair(t *testing.T, a, b logicalCell) {
	t.Helper()
	ea, eb := a.encode(), b.encode()
	require.Equal(t, compareLogical(a, b), Compare(ea, eb), "%+v %+v", a, b)
	require.Equal(t, compareLogical(a, b) == 0, bytes.Equal(ea, eb))
	require.LessOrEqual(t, len(ea), cellKeyBytesMax([]byte(a.key), []byte(a.qual)))
	got, ok := a.layout().Parse(ea)
	require.True(t, ok, "%+v", a)
	require.Equal(t, a, logicalCell{table: a.table, family: got.Header[2], hourKeys: a.hourKeys,
		key: string(a.layout().AppendRowKey(nil, &got)), qual: string(got.Qualifier), tsMs: got.TsMs})
	require.Equal(t, a.header(), got.Header)
}

// checkBound compares a row with a bound made of any bytes.
func checkBound(t *testing.T, a logicalCell, bound string) {
	t.Helper()
	key := a.encode()
	b, _ := a.layout().NewBound(nil, []byte(bound))
	place := placeOf(key, Split(key), a.hourKeys)
	require.Equal(t, a.key >= bound, bytes.Compare(place, b.Row) >= 0, "row %q bound %q", a.key, bound)
	seek := b.AppendSeek(nil, a.header())
	require.Equal(t, a.key >= bound, Compare(key, seek) >= 0, "row %q bound %q", a.key, bound)
	require.LessOrEqual(t, len(b.Row), BoundBytesMax(len(bound)))
	start := AppendPartitionStart(nil, a.header())
	require.Negative(t, Compare(start, key))
	require.Positive(t, Compare(AppendPartitionStart(nil, a.header().Next()), key))
	require.LessOrEqual(t, Compare(start, seek), 0)
	rowKey := a.layout().AppendEncodedRow(nil, place)
	require.Equal(t, a.key, string(rowKey))
}

func TestKeyOrder(t *testing.T) {
	seed := rand.Uint64()
	defer func() { t.Log("seed", seed) }()
	r := sometimes{rand.New(rand.NewPCG(seed, 0))}
	for range 20_000 {
		hourKeys := r.IntN(2) == 0
		a, b := r.cell(hourKeys), r.cell(hourKeys)
		require.True(t, a.valid() && b.valid())
		checkPair(t, a, b)
		checkPair(t, a, a)
		checkBound(t, a, b.key)
		checkBound(t, a, b.key[:r.IntN(len(b.key)+1)])
		checkBound(t, a, a.key[:r.IntN(len(a.key)+1)]+r.text("\x00/09:\xff#", 3))
	}
}

func TestKeyBytes(t *testing.T) {
	// FORMAT.md has these examples.
	hour := Layout{HourKeys: true}.Append(nil, NewHeader(1, 2, 19_783), []byte("cpu#03#host=a#9525207"), []byte{1, 0, 0, 0, 0},
		474_793*int64(hourMs)-1)
	require.Equal(t, "\x00\x01\x02\xff\xb2\xb8cpu#03#host=a#\x00\x91\x57\xd7\x01\x00\x00\x00\x00\x26", string(hour))
	plain := Layout{}.Append(nil, NewHeader(2, 1, 0), []byte("cpu#9980216"), []byte("c"), 1)
	require.Equal(t, "\x00\x02\x01\xff\xff\xffcpu#9980216\x00c\x05\x26\x5b\xfe\x19", string(plain))
	bound, _ := Layout{HourKeys: true}.NewBound(nil, []byte("cpu#03#host=a#95"))
	require.Equal(t, "\x00\x01\x02\xff\xb2\xb8cpu#03#host=a#\x00\x90\xf5\x60\x10",
		string(bound.AppendSeek(nil, NewHeader(1, 2, 19_783))))
}

// oddStrings are byte strings for the comparer: real keys, bounds, prefixes of both, and noise.
func oddStrings(r sometimes) [][]byte {
	out := [][]byte{{}, {0}, {0, 0}, {4}, {5}, {0xff}, {0xfc}, {1, 0xfc}, {0, 4, 0xfc}, {0, 64, 0xfd}}
	for range 40 {
		c := r.cell(r.IntN(2) == 0)
		key := c.encode()
		out = append(out, key, key[:Split(key)], key[Split(key):], key[r.IntN(len(key)):], key[:r.IntN(len(key))])
		b, _ := c.layout().NewBound(nil, []byte(c.key[:r.IntN(len(c.key)+1)]))
		out = append(out, b.AppendSeek(nil, c.header()), []byte(r.text("\x00\x01\x05\x09\xfc\xff", 9)))
	}
	return out
}

// TestComparer checks Pebble's requirements of a comparer, on keys and on any other bytes.
func TestComparer(t *testing.T) {
	seed := rand.Uint64()
	defer func() { t.Log("seed", seed) }()
	r := sometimes{rand.New(rand.NewPCG(seed, 0))}
	c := NewComparer()
	keys := oddStrings(r)
	slices.SortFunc(keys, c.Compare)
	require.True(t, slices.IsSortedFunc(keys, c.Compare))
	for i, a := range keys {
		checkSplit(t, a)
		for j, b := range keys {
			order := c.Compare(a, b)
			require.Equal(t, -order, c.Compare(b, a))
			require.Equal(t, order == 0, c.Equal(a, b))
			require.Contains(t, []int{-1, 0, 1}, order)
			if i < j {
				require.LessOrEqual(t, order, 0, "transitive")
			}
			checkComparePair(t, a, b, order)
		}
	}
}

func checkSplit(t *testing.T, a []byte) {
	c := NewComparer()
	n := c.Split(a)
	prefix, suffix := a[:n], a[n:]
	require.LessOrEqual(t, c.Compare(prefix, a), 0)
	if len(suffix) == 0 || n > 0 && prefix[n-1] != Sentinel {
		return // not a key of the engine; only the order matters
	}
	require.Equal(t, n, c.Split(prefix), "a prefix is a key")
	require.Zero(t, c.Split(suffix), "a suffix is a key")
	for i := range prefix {
		require.Equal(t, n-i, c.Split(a[i:]), "leading bytes do not matter")
	}
}

func checkComparePair(t *testing.T, a, b []byte, order int) {
	c := NewComparer()
	an, bn := c.Split(a), c.Split(b)
	if prefixes := bytes.Compare(a[:an], b[:bn]); prefixes != 0 {
		require.Equal(t, prefixes, order)
	} else {
		require.Equal(t, c.ComparePointSuffixes(a[an:], b[bn:]), order)
		require.Equal(t, c.CompareRangeSuffixes(a[an:], b[bn:]), order)
	}
	switch aa, bb := c.AbbreviatedKey(a), c.AbbreviatedKey(b); {
	case aa < bb:
		require.Negative(t, order)
	case aa > bb:
		require.Positive(t, order)
	}
	if order < 0 && len(a) > 0 {
		sep := c.Separator([]byte("dst"), a, b)
		require.Equal(t, "dst", string(sep[:3]))
		require.LessOrEqual(t, c.Compare(a, sep[3:]), 0)
		require.Negative(t, c.Compare(sep[3:], b))
		require.LessOrEqual(t, len(sep)-3, len(a))
	}
	succ := c.Successor([]byte("dst"), a)
	require.Equal(t, "dst", string(succ[:3]))
	require.LessOrEqual(t, c.Compare(a, succ[3:]), 0)
	prefix := a[:an]
	next := c.ImmediateSuccessor(nil, prefix)
	require.Positive(t, c.Compare(next, prefix))
	require.Equal(t, len(next), c.Split(next))
}

func TestSeparatorsAreShort(t *testing.T) {
	h := NewHeader(1, 1, 19_000)
	long := bytes.Repeat([]byte("x"), 150)
	a := Layout{HourKeys: true}.Append(nil, h, []byte(fmt.Sprintf("metric#00#host=aaa,%s#9500000", long)), []byte{1}, 5)
	b := Layout{HourKeys: true}.Append(nil, h, []byte(fmt.Sprintf("metric#00#host=abb,%s#9500000", long)), []byte{1}, 5)
	require.Less(t, len(separateKeys(nil, a, b)), 30)
	far := Layout{HourKeys: true}.Append(nil, h, []byte(fmt.Sprintf("metric#00#host=ccc,%s#9500000", long)), []byte{1}, 5)
	require.Less(t, len(separateKeys(nil, a, far)), 30)
	require.Less(t, len(succeedKey(nil, a)), 4)
}

func FuzzCellKey(f *testing.F) {
	f.Add(false, "a", "q", int64(1), "a\x00", "", int64(2))
	f.Add(true, "a#b#c#1234567", "q", int64(1), "a#b##1234567", "", int64(2))
	f.Fuzz(func(t *testing.T, hourKeys bool, key, qual string, tsMs int64, key2, qual2 string, tsMs2 int64) {
		a := logicalCell{table: 1, family: 1, hourKeys: hourKeys, key: key, qual: qual, tsMs: tsMs}
		b := logicalCell{table: 1, family: 1, hourKeys: hourKeys, key: key2, qual: qual2, tsMs: tsMs2}
		if !a.valid() {
			t.Skip()
		}
		checkBound(t, a, key2)
		if b.valid() {
			checkPair(t, a, b)
		}
	})
}

func FuzzParseCellKey(f *testing.F) {
	f.Add([]byte{}, true)
	f.Add(logicalCell{table: 1, family: 1, key: "k", qual: "q", tsMs: 9}.encode(), false)
	f.Add(logicalCell{table: 1, family: 1, hourKeys: true, key: "a#b#c#1234567", qual: "q", tsMs: 9}.encode(), true)
	f.Fuzz(func(t *testing.T, key []byte, hourKeys bool) {
		_ = Format(key)
		layout := Layout{HourKeys: hourKeys}
		c, ok := layout.Parse(key)
		if !ok {
			return
		}
		require.True(t, c.TsMs >= 0)
		again := layout.Append(nil, c.Header, layout.AppendRowKey(nil, &c), c.Qualifier, c.TsMs)
		// The encoder has one form for a cell. A parsed key of another form still names the same cell.
		d, ok := layout.Parse(again)
		require.True(t, ok)
		require.Equal(t, c.TsMs, d.TsMs)
		require.True(t, bytes.Equal(c.Qualifier, d.Qualifier) && bytes.Equal(c.Row, d.Row) && c.Hour == d.Hour)
	})
}

func FuzzCompare(f *testing.F) {
	f.Add([]byte{0}, []byte{1, 5}, []byte{0xff, 0xfd})
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		keys := [][]byte{a, b, c}
		slices.SortFunc(keys, Compare)
		require.LessOrEqual(t, Compare(keys[0], keys[2]), 0)
		for _, x := range keys {
			checkSplit(t, x)
			for _, y := range keys {
				order := Compare(x, y)
				require.Equal(t, -order, Compare(y, x))
				checkComparePair(t, x, y, order)
			}
		}
	})
}

func TestHourCeil(t *testing.T) {
	for text, want := range map[string]uint32{"": 0, "5": 5_000_000, "0000001": 1, "00000010": 2, "9999999": 9_999_999,
		"9999999x": 10_000_000, ":": 10_000_000, "/": 0, "99:": 10_000_000,
		"12:": 1_300_000, "12/": 1_200_000, "\xff": 10_000_000} {
		require.Equal(t, want, hourCeil([]byte(text)), text)
	}
}

func TestMerger(t *testing.T) {
	m := NewMerger()
	operand := func(kind storage.FamilyKind, v int64) []byte {
		b := make([]byte, OperandBytes)
		PutOperand(b, kind, v)
		return b
	}
	for _, kind := range []storage.FamilyKind{storage.SumInt64, storage.MinInt64, storage.MaxInt64} {
		var results []int64
		for _, order := range [][]int64{{5, -7, 1 << 62, 1 << 62}, {1 << 62, 1 << 62, -7, 5}} {
			first := operand(kind, order[0])
			v, err := m.Merge(nil, first)
			require.NoError(t, err)
			for _, n := range order[1:] {
				clear(first) // operands belong to the tree, which reuses them
				first = operand(kind, n)
				require.NoError(t, v.MergeNewer(first))
			}
			clear(first)
			out, _, err := v.Finish(true)
			require.NoError(t, err)
			_, n, err := ParseOperand(out)
			require.NoError(t, err)
			results = append(results, n)
		}
		require.Equal(t, results[0], results[1], "kind %d", kind)
	}
	for _, bad := range [][]byte{nil, {1}, operand(storage.Plain, 1), operand(9, 1), append(operand(1, 1), 0)} {
		_, err := m.Merge(nil, bad)
		require.ErrorIs(t, err, storage.ErrCorrupt)
		v, err := m.Merge(nil, operand(storage.SumInt64, 1))
		require.NoError(t, err)
		require.ErrorIs(t, v.MergeOlder(bad), storage.ErrCorrupt)
	}
	v, err := m.Merge(nil, operand(storage.SumInt64, 1))
	require.NoError(t, err)
	require.ErrorIs(t, v.MergeNewer(operand(storage.MaxInt64, 1)), storage.ErrCorrupt)
}

// TestDayChunkKey compares the key of a day chunk with the example in FORMAT.md.
func TestDayChunkKey(t *testing.T) {
	h := NewHeader(1, 2, 474_792/24)
	prefix := []byte("cpu#03#host=a#\x00")
	key := AppendDayChunk(nil, h, prefix)
	require.Equal(t, "\x00\x01\x02\xff\xb2\xb8cpu#03#host=a#\x00\x07", string(key))
	require.True(t, IsDayChunk(key, Split(key)))
	cell := Layout{HourKeys: true}.Append(nil, h, []byte("cpu#03#host=a#9525207"), []byte{1, 0, 0, 0, 0}, HourEndMs(9_525_207))
	require.False(t, IsDayChunk(cell, Split(cell)))
	require.Equal(t, -1, Compare(key, cell))
	before := append(append([]byte(nil), h[:]...), prefix...)
	require.Equal(t, -1, Compare(before, key))
	bound, _ := Layout{HourKeys: true}.NewBound(nil, []byte("cpu#03#host=a#0000000"))
	require.Equal(t, string(before), string(bound.AppendSeek(nil, h)))
}

// cellKeyBytesMax bounds the length of the key that Append appends.
func cellKeyBytesMax(key, qualifier []byte) int {
	return HeaderBytes + len(key) + 1 + len(qualifier) + clockBytes + trailerLong
}

// placeOf returns the encoded row of a cell's key, comparable with Bound.Row.
func placeOf(key []byte, split int, hourKeys bool) []byte {
	if hourKeys {
		split += HourBytes
	}
	return key[HeaderBytes:split]
}
