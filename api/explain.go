package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"halite/api/promjson"
	"halite/keyschema"
	"halite/query"
	"halite/query/read"
	"halite/storage/index"
)

// explanationData is the plan of a query with its cost. Times of the stages are in seconds.
type explanationData struct {
	Operators []string             `json:"operators"`
	Undecided bool                 `json:"givenUp,omitempty"`
	GaveUpFor string               `json:"givenUpReason,omitempty"`
	Engine    []explanationPart    `json:"engine"`
	Selectors []explanationSpan    `json:"selectors"`
	Reading   explanationReading   `json:"reading"`
	Tiers     []explanationTier    `json:"tiers"`
	Cache     explanationCache     `json:"cache"`
	Stages    map[string]stageTime `json:"stages"`
}

type explanationPart struct {
	Expression string `json:"expression"`
	Reason     string `json:"reason"`
}

type explanationSpan struct {
	Selector string    `json:"selector"`
	From     unixMilli `json:"from"`
	To       unixMilli `json:"to"`
	FirstDay string    `json:"firstDay"`
	LastDay  string    `json:"lastDay"`
	Days     int       `json:"days"`
	Stored   []string  `json:"stored,omitempty"`
}

type explanationReading struct {
	Class      read.Class        `json:"class"`
	Reason     string            `json:"classReason"`
	Series     int64             `json:"series"`
	Ranges     int64             `json:"ranges"`
	RowsRead   int64             `json:"rowsRead"`
	RowsUsed   int64             `json:"rowsUsed"`
	RowsCached int64             `json:"rowsCached"`
	Samples    int64             `json:"samplesDecoded"`
	Scans      []explanationScan `json:"scans"`
}

// explanationScan is a read of one day, see read.Scan. Start and End are row keys. The hours of the first and the last row are
// times.
type explanationScan struct {
	Day      string     `json:"day"`
	Ranges   int        `json:"ranges"`
	Start    string     `json:"start"`
	End      string     `json:"end"`
	RowsRead int        `json:"rowsRead"`
	RowsUsed int        `json:"rowsUsed"`
	First    *unixMilli `json:"firstRowHour,omitempty"`
	Last     *unixMilli `json:"lastRowHour,omitempty"`
}

func explainReading(f *read.Figures) explanationReading {
	e := explanationReading{
		Series: f.Series, Ranges: f.Ranges, RowsRead: f.Rows, RowsUsed: f.RowsUsed, RowsCached: f.RowsCached, Samples: f.Samples,
		Scans: []explanationScan{},
	}
	e.Class, e.Reason = f.Class()
	for i := range f.Scans {
		e.Scans = append(e.Scans, explainScan(&f.Scans[i]))
	}
	return e
}

func explainScan(s *read.Scan) explanationScan {
	e := explanationScan{
		Day:    time.UnixMilli(s.Day * keyschema.DayMs).UTC().Format(time.DateOnly),
		Ranges: s.Ranges, Start: keyText(s.Start), End: keyText(s.End), RowsRead: s.Rows, RowsUsed: s.Used,
	}
	if s.FirstHour >= 0 {
		first, last := unixMilli(keyschema.HourStartMs(s.FirstHour)), unixMilli(keyschema.HourStartMs(s.LastHour))
		e.First, e.Last = &first, &last
	}
	return e
}

// explanationTier names the states that replaced the samples of a selector with a window of several hours.
type explanationTier struct {
	Selector   string `json:"selector"`
	Tier       string `json:"tier"`
	Reason     string `json:"reason"`
	DayStates  int64  `json:"dayStates"`
	HourStates int64  `json:"hourStates"`
	RowsRead   int64  `json:"rowsRead"`
	Samples    int64  `json:"samples"`
	FromRows   int64  `json:"seriesFromRowsAlone"`
}

type explanationCache struct {
	Outcome        string `json:"outcome"`
	Reason         string `json:"reason,omitempty"`
	SameRangeOnly  string `json:"sameRangeOnly,omitempty"`
	StepsReused    int    `json:"stepsReused"`
	StepsEvaluated int    `json:"stepsEvaluated"`
}

// unixMilli prints unix milliseconds as seconds, like all times of the API.
type unixMilli int64

// MarshalJSON implements json.Marshaler.
func (t unixMilli) MarshalJSON() ([]byte, error) { return promjson.AppendTimestamp(nil, int64(t)), nil }

type stageTime float64

func seconds(d time.Duration) stageTime { return stageTime(d.Seconds()) }

func explanation(e *query.Explain) explanationData {
	d := explanationData{
		Operators: append([]string{}, e.Operators...), Undecided: e.Undecided, GaveUpFor: e.UndecidedReason,
		Engine: []explanationPart{}, Selectors: []explanationSpan{}, Tiers: []explanationTier{},
		Reading: explainReading(&e.Reading),
		Cache: explanationCache{
			Outcome: e.Cache.Outcome, Reason: e.Cache.Reason, SameRangeOnly: e.Cache.Whole,
			StepsReused: e.Cache.StepsReused, StepsEvaluated: e.Cache.StepsEvaluated,
		},
		Stages: map[string]stageTime{
			"queue": seconds(e.QueueTime), "plan": seconds(e.PlanTime), "select": seconds(e.SelectTime),
			"read": seconds(e.ReadTime), "evaluate": seconds(e.EvaluateTime), "total": seconds(e.TotalTime),
		},
	}
	for _, p := range e.Engine {
		d.Engine = append(d.Engine, explanationPart(p))
	}
	for i := range e.Tiers {
		u := &e.Tiers[i]
		d.Tiers = append(d.Tiers, explanationTier{
			Selector: u.Selector, Tier: u.Tier(), Reason: u.Reason, DayStates: u.Days, HourStates: u.Hours, RowsRead: u.Rows,
			Samples: u.Samples, FromRows: u.Fallbacks,
		})
	}
	for _, s := range e.Selectors {
		d.Selectors = append(d.Selectors, explanationSpan{
			Selector: s.Selector, From: unixMilli(s.FromMs), To: unixMilli(s.ToMs),
			FirstDay: s.FirstDay, LastDay: s.LastDay, Days: s.Days, Stored: s.Stored,
		})
	}
	return d
}

// explain answers /api/v1/explain. It evaluates like query_range, or like query if there is no start, end or step. The response
// describes the evaluation and omits the result. With match[] it describes the selection of a look-up or a read instead.
func (s *Server) explain(r *http.Request) (reply, *apiError) {
	if r.FormValue("query") == "" && (r.FormValue("of") != "" || len(r.Form["match[]"]) > 0) {
		return s.explainSelection(r)
	}
	var (
		result *query.Result
		err    error
		aerr   *apiError
	)
	if r.FormValue("start")+r.FormValue("end")+r.FormValue("step") != "" {
		var req query.RangeRequest
		if req, aerr = s.rangeRequest(r); aerr != nil {
			return reply{}, aerr
		}
		req.Explain = true
		result, err = s.opts.Engine.Range(r.Context(), req)
	} else {
		var req query.InstantRequest
		if req, aerr = s.instantRequest(r); aerr != nil {
			return reply{}, aerr
		}
		req.Explain = true
		result, err = s.opts.Engine.Instant(r.Context(), req)
	}
	if err != nil {
		return reply{}, evalError(err)
	}
	defer result.Close()
	return document(explanation(result.Explain))
}

// selectionPlan describes how selectors become series, or samples. Work counts the reads of the look-ups in the index.
type selectionPlan struct {
	Of        string               `json:"of"`
	Class     read.Class           `json:"class"`
	Reason    string               `json:"classReason"`
	Selectors []selectorWork       `json:"selectors"`
	Reading   *explanationReading  `json:"reading,omitempty"`
	Stages    map[string]stageTime `json:"stages"`
}

type selectorWork struct {
	Selector      string `json:"selector"`
	Metrics       int    `json:"metricsInMemory"`
	DaySegments   int    `json:"daySegments"`
	MonthSegments int    `json:"monthSegments"`
	Blocks        int    `json:"blocks"`
	Values        int64  `json:"valuesCompared"`
	Tested        int64  `json:"seriesTested"`
	Matched       int64  `json:"seriesMatched"`
	Found         int    `json:"found"`
}

// selectionResults are the values of the parameter "of". The last three also read samples.
func selectionResults() map[string]index.ResultKind {
	return map[string]index.ResultKind{
		"series": index.ResultSeries, "labels": index.ResultNames, "label_values": index.ResultValues,
		ofRead: index.ResultSeries, ofFederate: index.ResultSeries, ofExport: index.ResultSeries,
	}
}

// Responses that read samples.
const (
	ofRead     = "read"
	ofFederate = "federate"
	ofExport   = "export"
)

// explainSelection answers /api/v1/explain for the selectors of look-ups, remote read, federation and export.
func (s *Server) explainSelection(r *http.Request) (reply, *apiError) {
	p := selectionPlan{Of: r.FormValue("of"), Stages: map[string]stageTime{}}
	if p.Of == "" {
		p.Of = "series"
	}
	kind, ok := selectionResults()[p.Of]
	if !ok {
		return reply{}, badParam("of", fmt.Errorf("%q is none of series, labels, label_values, read, federate, export", p.Of))
	}
	label := r.FormValue("label")
	if (kind == index.ResultValues) != (label != "") {
		return reply{}, badParam("label", errors.New("required with of=label_values, and not allowed otherwise"))
	}
	l, aerr := s.lookupParams(r, func(err error) *apiError { return badParam("match[]", err) })
	if aerr != nil {
		return reply{}, aerr
	}
	if p.Of == ofFederate {
		now := s.opts.Now().UnixMilli()
		l.mintMs, l.maxtMs, l.empty = now-s.opts.Lookback.Milliseconds(), now, false
	}
	budget := s.newBudget(r.Context())
	defer budget.end()
	if aerr = s.explainLookups(r, &p, &l, kind, label, budget); aerr != nil {
		return reply{}, aerr
	}
	if p.Of == ofRead || p.Of == ofFederate || p.Of == ofExport {
		if aerr = s.explainReads(r.Context(), &p, &l, budget); aerr != nil {
			return reply{}, aerr
		}
	}
	return document(p)
}

// explainLookups counts the work of each selector in the index.
func (s *Server) explainLookups(
	r *http.Request, p *selectionPlan, l *lookup, kind index.ResultKind, label string, budget responseBudget,
) *apiError {
	ctx, leave, aerr := s.admit(r)
	if aerr != nil {
		return aerr
	}
	defer leave()
	if len(l.sets) == 0 {
		l.sets = [][]*labels.Matcher{nil}
	}
	began := time.Now()
	named, places := true, 0
	for _, set := range l.sets {
		var work index.Work
		if !l.empty {
			var err error
			if work, err = s.opts.Index.Explain(ctx, budget.forLookup(), kind, label, l.mintMs, l.maxtMs, set...); err != nil {
				return evalError(err)
			}
		}
		named = named && namesMetric(set)
		places += work.Metrics + work.DaySegments + work.MonthSegments
		p.Selectors = append(p.Selectors, selectorWork{
			Selector: selectorText(set), Metrics: work.Metrics, DaySegments: work.DaySegments, MonthSegments: work.MonthSegments,
			Blocks: work.Blocks, Values: work.Values, Tested: work.Tested, Matched: work.Matched, Found: work.Found,
		})
	}
	p.Stages["lookUp"] = seconds(time.Since(began))
	p.Class, p.Reason = lookupClass(named, places)
	return nil
}

// lookupClass classifies look-ups in the index by whether they name the metric, and by the number of places that hold it.
func lookupClass(named bool, places int) (read.Class, string) {
	switch {
	case places == 0:
		return read.ClassNone, "the index has no such metric in this time range"
	case !named:
		return read.ClassSearch, "no matcher names the metric, so the series of every metric are tested"
	case places == 1:
		return read.ClassScan, "the series of the metric are in one place"
	}
	return read.ClassMerge, fmt.Sprintf("the series of the metrics are in %d places: memory and segments of days and months", places)
}

// namesMetric reports whether a matcher lists the names of metrics.
func namesMetric(set []*labels.Matcher) bool {
	return slices.ContainsFunc(set, func(m *labels.Matcher) bool {
		lists := m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp && len(m.SetMatches()) > 0
		return lists && m.Name == model.MetricNameLabel
	})
}

func selectorText(set []*labels.Matcher) string {
	text := make([]string, len(set))
	for i, m := range set {
		text[i] = m.String()
	}
	return "{" + strings.Join(text, ",") + "}"
}

// explainReads reads the samples of the selectors like remote read, drops them, and reports its reads.
func (s *Server) explainReads(ctx context.Context, p *selectionPlan, l *lookup, budget responseBudget) *apiError {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Limits.ReadTimeout)
	defer cancel()
	if err := s.reads.Acquire(ctx, 1); err != nil {
		return evalError(err)
	}
	defer s.reads.Release(1)
	began := time.Now()
	var sum read.Figures
	for _, set := range l.sets {
		if len(set) == 0 || l.empty {
			continue // without selectors nothing is read
		}
		figures, err := s.readFigures(ctx, l.mintMs, l.maxtMs, set, budget)
		if err != nil {
			return evalError(err)
		}
		sum.Add(&figures)
	}
	e := explainReading(&sum)
	p.Reading, p.Class, p.Reason = &e, e.Class, e.Reason
	p.Stages["read"] = seconds(time.Since(began))
	return nil
}

// readFigures reads and drops samples. A store that counts nothing has no figures.
func (s *Server) readFigures(
	ctx context.Context, mintMs, maxtMs int64, set []*labels.Matcher, budget responseBudget,
) (f read.Figures, err error) {
	querier, err := s.readUnder(budget).Querier(mintMs, maxtMs)
	if err != nil {
		return f, err
	}
	defer s.closeQuerier(querier)
	var it chunkenc.Iterator
	selected := querier.Select(ctx, true, &promstorage.SelectHints{Start: mintMs, End: maxtMs}, set...)
	for selected.Next() {
		it = selected.At().Iterator(it)
		for it.Next() != chunkenc.ValNone {
		}
		if err := it.Err(); err != nil {
			return f, err
		}
	}
	if counts, ok := querier.(interface{ Figures() read.Figures }); ok {
		f = counts.Figures()
	}
	return f, selected.Err()
}
