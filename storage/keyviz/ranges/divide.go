package ranges

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"halite/storage/keyviz/heat"
)

const (
	// splitOver is the heat at which a range splits, relative to one of RangesMax equal ranges.
	splitOver = 2
	// freeShare is the share of RangesMax that merges keep free for splits: one in freeShare.
	freeShare = 16
	// coldShare: neighbours merge if together they have less than 1/coldShare of the heat of an equal range.
	coldShare = 4
)

// split divides hot leaves at their sampled keys.
func (s *Set) split() (changes []Change) {
	total := s.total()
	if total == 0 {
		return nil
	}
	even := total / float64(s.opts.RangesMax)
	hottest := make([]int, 0, len(s.leaves))
	for i, l := range s.leaves {
		if l.heat > splitOver*even {
			hottest = append(hottest, i)
		}
	}
	slices.SortStableFunc(hottest, func(a, b int) int { return cmp.Compare(s.leaves[b].heat, s.leaves[a].heat) })
	room := s.opts.RangesMax - len(s.leaves)
	parts := make(map[int][]*leaf)
	for _, i := range hottest {
		l, end := s.leaves[i], ""
		if i+1 < len(s.leaves) {
			end = s.leaves[i+1].start
		}
		keys := l.splitKeys(end, min(int(l.heat/even), room, keysMax)+1)
		if keys = keys[:min(len(keys), room)]; len(keys) == 0 {
			continue
		}
		room -= len(keys)
		parts[i] = l.divide(keys)
		for _, p := range parts[i][1:] {
			changes = append(changes, Change{p.start, true, fmt.Sprintf("the range had %.1f %% of the load", 100*l.heat/total)})
		}
	}
	var out []*leaf
	for i, l := range s.leaves {
		if len(parts[i]) > 0 {
			out = append(out, parts[i]...)
		} else {
			out = append(out, l)
		}
	}
	s.leaves = out
	return changes
}

func (s *Set) total() (sum float64) {
	for _, l := range s.leaves {
		sum += l.heat
	}
	return sum
}

// seriesOf returns the key of a row without its hour: all rows of a series sort after it. Other keys are unchanged.
func seriesOf(key string) string {
	if at := strings.LastIndexByte(key, '#'); at >= 0 {
		return key[:at+1]
	}
	return key
}

// pastSeries returns a key above all rows of a series but not above the rows of the next series.
func pastSeries(series string) string {
	if strings.HasSuffix(series, "#") {
		return series[:len(series)-1] + "$"
	}
	return series + "\x00"
}

// splitKeys returns up to parts−1 ascending keys that divide the samples of a leaf evenly, always between two series. A series
// with half of the samples gets its own range.
func (l *leaf) splitKeys(end string, parts int) []string {
	series := make([]string, len(l.keys))
	for i, key := range l.keys {
		series[i] = seriesOf(key)
	}
	slices.Sort(series)
	var keys []string
	add := func(key string) {
		if key > l.start && (end == "" || key < end) {
			keys = append(keys, key)
		}
	}
	for i := 0; i < len(series); {
		next := i
		for next < len(series) && series[next] == series[i] {
			next++
		}
		if 2*(next-i) >= len(series) && next-i > 1 {
			add(series[i])
			add(pastSeries(series[i]))
		}
		i = next
	}
	for part := 1; part < parts; part++ {
		if i := part * len(series) / parts; i > 0 && series[i] != series[i-1] {
			add(heat.Separator(series[i-1], series[i]))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// divide makes leaves from the parts between split keys. They share the heat in proportion to their samples.
func (l *leaf) divide(keys []string) []*leaf {
	parts := make([]*leaf, len(keys)+1)
	for i := range parts {
		parts[i] = &leaf{start: l.start}
		if i > 0 {
			parts[i].start = keys[i-1]
		}
	}
	for _, key := range l.keys {
		at, found := slices.BinarySearch(keys, key)
		if found {
			at++
		}
		parts[at].keys = append(parts[at].keys, key)
	}
	for _, p := range parts {
		share := float64(len(p.keys)) / float64(len(l.keys))
		p.heat, p.peak = l.heat*share, l.peak*share
	}
	return parts
}

// merge joins the coldest neighbours until there is space for splits. It crosses a border of salts, metrics or tenants only
// if nothing else makes space.
func (s *Set) merge() (changes []Change) {
	for i := 1; i < len(s.leaves); i++ {
		s.leaves[i].border = heat.BorderOf(s.leaves[i-1].start, s.leaves[i].start)
	}
	limit := s.opts.RangesMax - s.opts.RangesMax/freeShare
	even := 0.0
	for _, l := range s.leaves {
		even += l.peak / float64(s.opts.RangesMax)
	}
	for level := heat.BorderNone; level <= heat.BorderTenant && len(s.leaves) > limit; level++ {
		for len(s.leaves) > limit {
			at, sum := s.coldest(level)
			if at < 0 || level < heat.BorderTenant && sum > splitOver*even {
				break
			}
			changes = append(changes, s.join(at, "these neighbours are the coldest, and the ranges are near their limit"))
		}
	}
	if even == 0 {
		return changes
	}
	for len(s.leaves) > limit/2 {
		at, sum := s.coldest(heat.BorderNone)
		if at < 0 || sum > even/coldShare {
			break
		}
		changes = append(changes, s.join(at, "both neighbours are cold"))
	}
	return changes
}

// coldest returns the leaf that has the least heat together with its predecessor, across borders up to a level. at is −1 if
// there is none.
func (s *Set) coldest(level heat.Border) (at int, sum float64) {
	at = -1
	for i := 1; i < len(s.leaves); i++ {
		both := s.leaves[i-1].peak + s.leaves[i].peak
		if (at < 0 || both < sum) && s.leaves[i].border <= level {
			at, sum = i, both
		}
	}
	return at, sum
}

// join merges the leaf at with its predecessor.
func (s *Set) join(at int, reason string) Change {
	into, from := s.leaves[at-1], s.leaves[at]
	into.heat += from.heat
	into.peak += from.peak
	into.keys = append(into.keys, from.keys...)
	if len(into.keys) > keysMax {
		half := into.keys[:0]
		for i := 0; i < len(into.keys); i += 2 {
			half = append(half, into.keys[i])
		}
		into.keys = half
	}
	if from.id != 0 {
		into.ids = append(into.ids, from.id)
	}
	into.ids = append(into.ids, from.ids...)
	s.leaves = slices.Delete(s.leaves, at, at+1)
	if at < len(s.leaves) {
		s.leaves[at].border = heat.BorderOf(into.start, s.leaves[at].start)
	}
	return Change{from.start, false, reason}
}
