package storagetest

import (
	"fmt"
	"strings"

	"halite/storage"
)

// alphabet has the bytes of random keys and qualifiers: those that encodings treat as special.
const alphabet = "\x00\x01#=,%a\xfe\xff"

func (p *pair) text(lengthMax int) string {
	var b strings.Builder
	for range p.rng.IntN(lengthMax + 1) {
		b.WriteByte(alphabet[p.rng.IntN(len(alphabet))])
	}
	return b.String()
}

// key returns a row key that the table takes, from a set small enough that keys recur.
func (p *pair) key(name string) []byte {
	if !p.hourKeys(name) {
		odd := oddKeys()
		if p.rng.IntN(3) > 0 {
			return []byte(odd[p.rng.IntN(len(odd))])
		}
		return []byte("k" + p.text(3))
	}
	odd := oddPrefixes()
	prefix := odd[p.rng.IntN(len(odd))]
	if p.rng.IntN(3) == 0 {
		prefix = fmt.Sprintf("%s#0%d#%s#", strings.ReplaceAll(p.text(2), "#", "%23"), p.rng.IntN(3),
			strings.ReplaceAll(p.text(2), "#", "%23"))
	}
	return []byte(hourKey(prefix, p.hour()))
}

// hourKeys reports whether a table has hour keys. In even_hours the timestamp of each cell is the end of its row's
// hour, as in real use.
func (p *pair) hourKeys(name string) bool { return name == "hours" || name == "even_hours" }

// hour returns an hour near the clock, and sometimes a distant one.
func (p *pair) hour() int64 {
	if p.rng.IntN(20) == 0 {
		return []int64{0, 1, hourMax - 1, hourMax}[p.rng.IntN(4)]
	}
	return p.clock.now().UnixMilli()/hourMs - p.rng.Int64N(60) + 3
}

// tsMs returns a timestamp for a cell of that row: mostly the end of its hour, and otherwise near now or at an edge.
func (p *pair) tsMs(name string, key []byte) int64 {
	if name == "even_hours" || name == "hours" && p.rng.IntN(4) > 0 {
		var hour int64
		if _, err := fmt.Sscanf(string(key[len(key)-7:]), "%d", &hour); err == nil {
			return hourEndMs(hourMax - hour)
		}
	}
	now := p.clock.now().UnixMilli()
	day := now / dayMs * dayMs
	switch p.rng.IntN(6) {
	case 0:
		return []int64{0, 1, dayMs - 1, dayMs, storage.TsMsMax}[p.rng.IntN(5)]
	case 1:
		return day - p.rng.Int64N(4)*dayMs + p.rng.Int64N(3) - 1
	default:
		return now - p.rng.Int64N(100)*hourMs + p.rng.Int64N(3)*hourMs
	}
}

func (p *pair) qualifier() []byte {
	if p.rng.IntN(3) > 0 {
		return []byte{byte(p.rng.IntN(3))}
	}
	return []byte(p.text(3))
}

func (p *pair) family(name string) storage.Family {
	families := p.tables[name][0].Schema().Families
	return families[p.rng.IntN(len(families))]
}

// rowMutation returns a mutation. With plain it is valid for Load, if the table has plain families.
func (p *pair) rowMutation(name string, plain bool) storage.RowMutation {
	m := storage.RowMutation{Key: p.key(name)}
	for range 1 + p.rng.IntN(4) {
		m.Entries = append(m.Entries, p.entry(name, m.Key, plain))
	}
	return m
}

func (p *pair) entry(name string, key []byte, plain bool) storage.Entry {
	f := p.family(name)
	for plain && f.Kind != storage.Plain {
		f = p.family(name)
	}
	e := storage.Entry{Family: f.Name, Qualifier: p.qualifier()}
	if p.rng.IntN(200) == 0 {
		e.Family = "unknown"
	}
	if plain || p.rng.IntN(5) > 0 {
		e.TsMs = p.tsMs(name, key)
		if f.Kind != storage.Plain {
			e.Kind, e.Add = storage.AddToCell, p.rng.Int64()>>p.rng.IntN(64)-5
		} else {
			e.Value = []byte(fmt.Sprintf("%d%s", p.rng.IntN(1000), p.text(2)))
		}
		return e
	}
	switch p.rng.IntN(6) {
	case 0:
		e.Kind = storage.DeleteRow
	case 1:
		e.Kind = storage.DeleteFamily
	default:
		e.Kind = storage.DeleteCells
		if p.rng.IntN(2) == 0 {
			e.FromMs = p.tsMs(name, key)
		}
		if p.rng.IntN(2) == 0 {
			e.ToMs = e.FromMs + 1 + p.rng.Int64N(3*dayMs)
		}
	}
	return e
}

// bound returns a key, or a byte string near a key.
func (p *pair) bound(name string) []byte {
	key := p.key(name)
	switch p.rng.IntN(6) {
	case 0:
		return nil
	case 1:
		return key[:p.rng.IntN(len(key)+1)]
	case 2:
		return append(key, p.text(2)...)
	case 3:
		key[len(key)-1]++
		return key
	}
	return key
}

func (p *pair) rowRange(name string) storage.RowRange {
	r := storage.RowRange{Start: p.bound(name), End: p.bound(name)}
	if len(r.End) > 0 && string(r.Start) > string(r.End) && p.rng.IntN(5) > 0 {
		r.Start, r.End = r.End, r.Start
	}
	return r
}

func (p *pair) rowSet(name string) storage.RowSet {
	if p.rng.IntN(4) == 0 {
		return everything()
	}
	var set storage.RowSet
	for range p.rng.IntN(5) {
		set.Keys = append(set.Keys, p.key(name))
	}
	for range p.rng.IntN(5) {
		set.Ranges = append(set.Ranges, p.rowRange(name))
	}
	return set
}

func (p *pair) filter(name string) storage.Filter {
	var f storage.Filter
	if p.rng.IntN(3) == 0 {
		f.Families = append(f.Families, p.family(name).Name)
		if p.rng.IntN(3) == 0 {
			f.Families = append(f.Families, p.family(name).Name, "unknown")
		}
	}
	if p.rng.IntN(4) == 0 {
		f.QualifierStart = p.qualifier()
	}
	if p.rng.IntN(4) == 0 {
		f.QualifierEnd = p.qualifier()
	}
	if p.rng.IntN(3) == 0 {
		f.FromMs = p.tsMs(name, p.key(name))
	}
	if p.rng.IntN(3) == 0 {
		f.ToMs = p.tsMs(name, p.key(name))
	}
	if p.rng.IntN(4) == 0 {
		f.VersionsMax = 1 + p.rng.IntN(2)
	}
	f.KeysOnly = p.rng.IntN(6) == 0
	return f
}

// showMutations prints mutations for the log of a failed run.
func showMutations(muts []storage.RowMutation) string {
	var b strings.Builder
	for _, m := range muts {
		fmt.Fprintf(&b, "%q{", m.Key)
		for _, e := range m.Entries {
			switch e.Kind {
			case storage.SetCell:
				fmt.Fprintf(&b, " set %s:%q@%d=%q", e.Family, e.Qualifier, e.TsMs, e.Value)
			case storage.AddToCell:
				fmt.Fprintf(&b, " add %s:%q@%d+=%d", e.Family, e.Qualifier, e.TsMs, e.Add)
			case storage.DeleteCells:
				fmt.Fprintf(&b, " delete %s:%q[%d,%d)", e.Family, e.Qualifier, e.FromMs, e.ToMs)
			case storage.DeleteFamily:
				fmt.Fprintf(&b, " delete %s", e.Family)
			case storage.DeleteRow:
				b.WriteString(" delete row")
			}
		}
		b.WriteString(" } ")
	}
	return b.String()
}
