package api

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"halite/api/promjson"
	"halite/ingest"
)

// metricMetadata answers /api/v1/metadata: type, help and unit by metric, as senders reported them. A limit of 0 means
// unlimited here as in every other look-up; Prometheus answers it with an empty map.
func (s *Server) metricMetadata(r *http.Request) (reply, *apiError) {
	limit, aerr := numberParam(r, "limit")
	if aerr != nil {
		return reply{}, aerr
	}
	perMetric, aerr := numberParam(r, "limit_per_metric")
	if aerr != nil {
		return reply{}, aerr
	}
	var found map[string][]ingest.Metadata
	if s.opts.Metadata != nil {
		found = s.opts.Metadata.Metadata(r.FormValue("metric"), max(limit, 0))
	}
	names := slices.Sorted(maps.Keys(found))
	if limit > 0 && len(names) > limit {
		names = names[:limit]
	}
	return reply{data: func(j *promjson.Writer) {
		j.Raw("{")
		for i, name := range names {
			if i > 0 {
				j.Raw(",")
			}
			j.String(name)
			j.Raw(":")
			entries := found[name]
			if perMetric > 0 && len(entries) > perMetric {
				entries = entries[:perMetric]
			}
			j.List(len(entries), func(i int) { writeMetadata(j, entries[i]) })
		}
		j.Raw("}")
	}}, nil
}

func writeMetadata(j *promjson.Writer, m ingest.Metadata) {
	j.Raw(`{"type":`)
	j.String(m.Type)
	j.Raw(`,"unit":`)
	j.String(m.Unit)
	j.Raw(`,"help":`)
	j.String(m.Help)
	j.Raw(`}`)
}

// numberParam reads a limit of the metadata endpoints, where negative numbers mean unlimited as well.
func numberParam(r *http.Request, name string) (int, *apiError) {
	text := r.FormValue(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, badData(errors.New(name + " must be a number"))
	}
	return n, nil
}
