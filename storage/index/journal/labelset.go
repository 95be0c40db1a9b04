package journal

import (
	"context"
	"encoding/binary"
	"errors"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/envelope"
	"halite/storage/index/memory"
	"halite/storage/index/segment"
)

// LabelSet returns the label set whose hash is in the row keys of a metric. It looks in the tables and in the active index.
// A row may be older than the Persist that stores its label set. Then the series is active; after a restart, the replay of
// the log adds it.
func LabelSet(ctx context.Context, meta storage.Table, active *memory.Index, metric, hash string) ([]keyschema.Tag, error) {
	tags, err := StoredLabelSet(ctx, meta, hash)
	if errors.Is(err, envelope.ErrMissing) {
		if tags := activeLongTags(active, metric, hash); tags != nil {
			return tags, nil
		}
	}
	return tags, err
}

// StoredLabelSet reads the label set whose hash is in row keys from table meta.
func StoredLabelSet(ctx context.Context, meta storage.Table, hash string) ([]keyschema.Tag, error) {
	key, qualifier := segment.LabelSetKey(hash), []byte{segment.QualTagList}
	value, err := segment.ReadCell(ctx, meta, 0, key, qualifier)
	if err != nil {
		return nil, err
	}
	if value == nil {
		return nil, envelope.Corrupt(storage.TableMeta, key, qualifier, envelope.ErrMissing)
	}
	tags, err := openLabelSet(value, key, qualifier)
	if err != nil {
		return nil, envelope.Corrupt(storage.TableMeta, key, qualifier, err)
	}
	return tags, nil
}

// openLabelSet reads the stored value of a label set.
func openLabelSet(value, key, qualifier []byte) ([]keyschema.Tag, error) {
	payload, err := envelope.Open(value, key, qualifier)
	if err != nil {
		return nil, err
	}
	return parseLabelSet(payload)
}

// activeLongTags finds an active series whose tags have the hash.
func activeLongTags(active *memory.Index, metric, hash string) []keyschema.Tag {
	t := active.Table(metric)
	if t == nil {
		return nil
	}
	var v memory.View
	v.Load(t)
	for row := range v.Rows {
		if !mayBeLong(&v, row) {
			continue
		}
		tags := v.Tags(nil, row)
		if h, long := keyschema.MayBeLong(metric, tags); long && h == hash {
			return tags
		}
	}
	return nil
}

// checkLong queues the label set for table meta if row keys contain its hash instead, under the current schema rule or under
// a later one.
func (e *encoder) checkLong(v *memory.View, row uint32) {
	if !mayBeLong(v, row) {
		return
	}
	tags := v.Tags(nil, row)
	if hash, long := keyschema.MayBeLong(v.Metric(), tags); long {
		e.long = append(e.long, LabelSetMutation(hash, tags))
	}
}

// mayBeLong reports whether some rule may hash the label set of a row. Escaping at most triples the length of
// a text.
func mayBeLong(v *memory.View, row uint32) bool {
	size := len(v.Metric())
	for pos, c := range v.Columns {
		if id := v.Data[pos].At(row); id != 0 {
			size += len(c.Dict.Name) + len(c.Dict.Value(id)) + 2
		}
	}
	return size*3+64 >= keyschema.KeyBytesMax
}

// LabelSetMutation stores a label set under its hash, for readers of row keys with the hash.
func LabelSetMutation(hash string, tags []keyschema.Tag) storage.RowMutation {
	key, qualifier := segment.LabelSetKey(hash), []byte{segment.QualTagList}
	blob := binary.AppendUvarint(envelope.New(envelope.FormatV1, 256), uint64(len(tags)))
	for _, t := range tags {
		blob = envelope.AppendText(envelope.AppendText(blob, t.Name), t.Value)
	}
	return storage.RowMutation{Key: key, Entries: []storage.Entry{{
		Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: qualifier, Value: envelope.Seal(blob, key, qualifier),
	}}}
}

// parseLabelSet reads the payload of a label set row.
func parseLabelSet(payload []byte) ([]keyschema.Tag, error) {
	c := &envelope.Decoder{Rest: payload}
	n := c.Count(2)
	tags := make([]keyschema.Tag, 0, n)
	for range n {
		t := keyschema.Tag{Name: string(c.Text()), Value: string(c.Text())}
		if k := len(tags); c.Err == nil && k > 0 && tags[k-1].Name >= t.Name {
			return nil, envelope.ErrOrder
		}
		tags = append(tags, t)
	}
	return tags, c.End()
}
