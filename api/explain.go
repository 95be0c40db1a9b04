package api

import (
	"net/http"
	"time"

	"halite/api/promjson"
	"halite/keyschema"
	"halite/query"
	"halite/query/read"
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
	Series     int64             `json:"series"`
	Ranges     int64             `json:"ranges"`
	RowsRead   int64             `json:"rowsRead"`
	RowsUsed   int64             `json:"rowsUsed"`
	RowsCached int64             `json:"rowsCached"`
	Samples    int64             `json:"samplesDecoded"`
	Scans      []explanationScan `json:"scans"`
}

// explanationScan is a read of one day, see read.Scan; start and end are row keys, the hours of the first and the last row
// are times.
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
		Reading: explanationReading{
			Series: e.Reading.Series, Ranges: e.Reading.Ranges, RowsRead: e.Reading.Rows, RowsUsed: e.Reading.RowsUsed,
			RowsCached: e.Reading.RowsCached, Samples: e.Reading.Samples, Scans: []explanationScan{},
		},
		Cache: explanationCache{
			Outcome: e.Cache.Outcome, Reason: e.Cache.Reason, SameRangeOnly: e.Cache.Whole,
			StepsReused: e.Cache.StepsReused, StepsEvaluated: e.Cache.StepsEvaluated,
		},
		Stages: map[string]stageTime{
			"queue": seconds(e.QueueTime), "plan": seconds(e.PlanTime), "select": seconds(e.SelectTime),
			"read": seconds(e.ReadTime), "evaluate": seconds(e.EvaluateTime), "total": seconds(e.TotalTime),
		},
	}
	for i := range e.Reading.Scans {
		d.Reading.Scans = append(d.Reading.Scans, explainScan(&e.Reading.Scans[i]))
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

// explain answers /api/v1/explain. It evaluates like query_range, or like query if there is no start, end or step. The answer
// describes the evaluation and omits the result.
func (s *Server) explain(r *http.Request) (reply, *apiError) {
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
