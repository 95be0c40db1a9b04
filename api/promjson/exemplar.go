package promjson

import "github.com/prometheus/prometheus/model/exemplar"

// Exemplars appends series with their exemplars.
func (j *Writer) Exemplars(list []exemplar.QueryResult) {
	j.List(len(list), func(i int) {
		j.Raw(`{"seriesLabels":`)
		j.Labels(list[i].SeriesLabels)
		j.Raw(`,"exemplars":`)
		j.List(len(list[i].Exemplars), func(n int) { j.buf = appendExemplar(j.buf, &list[i].Exemplars[n]) })
		j.Raw(`}`)
	})
}

func appendExemplar(dst []byte, e *exemplar.Exemplar) []byte {
	dst = appendLabels(append(dst, `{"labels":`...), e.Labels)
	dst = appendFloat(append(dst, `,"value":`...), e.Value)
	dst = AppendTimestamp(append(dst, `,"timestamp":`...), e.Ts)
	return append(dst, '}')
}
