package receiver

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"halite/ingest"
	"halite/ingest/batch"
)

// badLinesShown bounds the bad lines in a response.
const badLinesShown = 10

// BadLines counts the lines of a body, and collects the lines that a parser leaves out.
type BadLines struct {
	number int
	shown  []string
	count  int
}

// Next goes to the next line.
func (l *BadLines) Next() { l.number++ }

// GoTo makes a line the current one. The first line is 1.
func (l *BadLines) GoTo(number int) { l.number = number }

// Number is the number of the current line, 0 before the first.
func (l *BadLines) Number() int { return l.number }

// Reject leaves out the current line, which counts as one sample.
func (l *BadLines) Reject(b *batch.Batch, fault string) {
	l.count++
	detail := ""
	if l.count <= badLinesShown {
		detail = fmt.Sprintf("line %d: %s", l.number, fault)
		l.shown = append(l.shown, detail)
	}
	b.Reject(batch.Rejection{Count: 1, Reason: ingest.ReasonMalformedLine, Detail: detail})
}

// Respond is 204, or 400 with the lines and samples that were left out. Everything else is stored.
func (l *BadLines) Respond(result *ingest.Result) Response {
	if result.Rejected == 0 {
		return Response{Status: http.StatusNoContent}
	}
	text := result.Summary()
	if len(l.shown) > 1 {
		text += "\n" + strings.Join(l.shown, "\n")
	}
	if more := l.count - len(l.shown); more > 0 {
		text += fmt.Sprintf("\n%d more lines", more)
	}
	return Text(http.StatusBadRequest, text)
}

// ExtraLabels returns the labels of the parameters extra_label of a URL, each as name=value. They replace labels of that name.
func ExtraLabels(r *http.Request) (extra []labels.Label, err error) {
	for _, text := range r.URL.Query()["extra_label"] {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("parameter extra_label: %q is not of the form name=value", text)
		}
		extra = append(extra, labels.Label{Name: name, Value: value})
	}
	return extra, nil
}
