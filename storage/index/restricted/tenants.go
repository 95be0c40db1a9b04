package restricted

import (
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage/index"
)

// ErrTenantLabel means that a stored series already has the label keyschema.TenantLabel, which a result for several tenants
// adds.
var ErrTenantLabel = errors.New("a series has the label " + keyschema.TenantLabel + " of its own; query one tenant at a time")

// show changes the labels of series to the labels that a client of the tenant sees. It numbers their groups from groups+1
// upward and returns the last number.
func show(t *index.Tenant, found []index.Series, groups uint32) (last uint32, err error) {
	b := labels.NewScratchBuilder(16)
	var shown []labels.Labels // by group
	first := groups
	for i := range found {
		s := &found[i]
		if t.Label != "" && s.Labels.Has(keyschema.TenantLabel) {
			return 0, fmt.Errorf("%w: %s", ErrTenantLabel, s.Labels)
		}
		if !strings.HasPrefix(s.Labels.Get(model.MetricNameLabel), t.Prefix) {
			return 0, fmt.Errorf("the index found a series that does not belong to tenant %s", keyschema.TenantOf(t.Prefix))
		}
		s.Tenant = t
		if s.Group == 0 {
			s.Labels = t.Labels(s.Labels, &b)
			for k := range s.Parts() {
				s.Alias.Parts[k].Labels, s.Alias.Parts[k].Tenant = s.Labels, t
			}
			continue
		}
		if int(s.Group) >= len(shown) {
			shown = append(shown, make([]labels.Labels, int(s.Group)+1-len(shown))...)
		}
		ls := &shown[s.Group]
		if ls.IsEmpty() {
			*ls = t.Labels(s.Labels, &b)
		}
		s.Labels = *ls
		s.Group += first
		groups = max(groups, s.Group)
	}
	return groups, nil
}
