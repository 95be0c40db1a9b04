package keyschema

import (
	"reflect"
	"testing"
)

func TestSmoke(t *testing.T) {
	s, err := NewSchema([]Rule{{Pattern: "veh*", Salts: 200, Promoted: []string{"route"}, Basis: BasisPromoted, ReversedDomains: []string{"host"}}})
	if err != nil {
		t.Fatal(err)
	}
	tags := []Tag{{"a", "x y"}, {"host", "www.example.com:9100"}, {"route", "7"}}
	r := s.RuleAt("vehicles", 5)
	k := AppendHour(r.AppendPrefix(nil, "vehicles", tags), 480000)
	t.Logf("%s", k)
	p, err := ParseRowKey(k)
	if err != nil || !reflect.DeepEqual(p.Tags, tags) {
		t.Fatal(p, err)
	}
}
