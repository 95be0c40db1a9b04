package opentsdb

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"halite/api/opentsdb/querystats"
	"halite/api/opentsdb/stats"
	"halite/api/receiver"
	"halite/api/receiver/opentsdb"
)

// Version is the version of OpenTSDB with which the API is compatible.
const Version = "2.4.1"

func (h *Handlers) aggregators(w http.ResponseWriter, _ *http.Request) error {
	return respond(w, http.StatusOK, opentsdb.Aggregators())
}

// config answers with the settings of OpenTSDB that clients read, and with the flags of the server.
func (h *Handlers) config(w http.ResponseWriter, _ *http.Request) error {
	out := map[string]string{
		"tsd.core.auto_create_metrics": "true", "tsd.core.auto_create_tagks": "true", "tsd.core.auto_create_tagvs": "true",
		"tsd.http.request.enable_chunked": "true", "tsd.mode": "rw", "tsd.storage.uid.width.metric": "8",
		"tsd.storage.uid.width.tagk": "8", "tsd.storage.uid.width.tagv": "8",
	}
	for name, value := range h.opts.Flags {
		out[name] = value
	}
	return respond(w, http.StatusOK, out)
}

// filterHelp describes a filter for people.
type filterHelp struct {
	Examples    string `json:"examples"`
	Description string `json:"description"`
}

func filterHelps() map[string]filterHelp {
	return map[string]filterHelp{
		"literal_or":      {"host=literal_or(web01),  host=literal_or(web01|web02)", "Selects the listed values."},
		"iliteral_or":     {"host=iliteral_or(WEB01|web02)", "Selects the listed values in any case."},
		"not_literal_or":  {"host=not_literal_or(web01|web02)", "Selects all values except the listed ones."},
		"not_iliteral_or": {"host=not_iliteral_or(WEB01)", "Selects all values except the listed ones, in any case."},
		"wildcard":        {"host=wildcard(web*),  host=wildcard(web*.lga.*)", "Selects values with any text for each asterisk."},
		"iwildcard":       {"host=iwildcard(WEB*)", "Selects values like wildcard, in any case."},
		"regexp":          {"host=regexp(web[0-9]+)", "Selects values that contain a match of the regular expression."},
		"not_key":         {"host=not_key()", "Selects series without the tag."},
	}
}

func (h *Handlers) filters(w http.ResponseWriter, _ *http.Request) error {
	return respond(w, http.StatusOK, filterHelps())
}

func (h *Handlers) version(w http.ResponseWriter, r *http.Request) error {
	b := &h.opts.Build
	if IsBare(r) && !r.URL.Query().Has("json") {
		return respondText(w, b.Text())
	}
	built := int64(0)
	if at, err := time.Parse(time.RFC3339, b.Date); err == nil {
		built = at.Unix()
	}
	return respond(w, http.StatusOK, map[string]string{
		"version": Version, "short_revision": b.Revision[:min(len(b.Revision), 7)], "full_revision": b.Revision,
		"timestamp": strconv.FormatInt(built, 10), "repo_status": "MINT", "user": b.User, "host": "", "repo": "halite " + b.Version,
		"branch": b.Branch,
	})
}

func (h *Handlers) serializers(w http.ResponseWriter, _ *http.Request) error {
	names := func(what string) []string {
		return []string{"Annotation" + what, "Put" + what, "Query" + what, "SearchQuery" + what, "Suggest" + what, "TSMeta" + what,
			"UidAssign" + what, "UidMeta" + what, "UidRename" + what}
	}
	return respond(w, http.StatusOK, []map[string]any{{
		"serializer": "json", "formatters": names("V1"), "parsers": names("V1"), "class": "json",
		"response_content_type": "application/json; charset=UTF-8", "request_content_type": "application/json",
	}})
}

func (h *Handlers) status(w http.ResponseWriter, _ *http.Request) error {
	return respond(w, http.StatusOK, map[string]string{"status": "ok"})
}

// dropCaches does nothing, because the server does not cache names.
func (h *Handlers) dropCaches(w http.ResponseWriter, _ *http.Request) error {
	return respond(w, http.StatusOK, map[string]string{"status": "200", "message": "Caches dropped"})
}

// stats answers /api/stats and the paths below it.
func (h *Handlers) stats(w http.ResponseWriter, r *http.Request) error {
	switch strings.Trim(strings.TrimPrefix(r.URL.Path, "/api/stats"), "/") {
	case "query":
		list := querystats.Document{Completed: []querystats.Completed{}, Running: []querystats.Running{}}
		if h.opts.Queries != nil {
			list = h.opts.Queries.Document()
		}
		return respond(w, http.StatusOK, list)
	case "jvm":
		return respond(w, http.StatusOK, stats.Runtime())
	case "threads", "region_clients": // Go has no threads to list, and the store has no region servers
		return respond(w, http.StatusOK, []string{})
	}
	source := h.opts.Stats
	if source == nil {
		source = &stats.Source{Gatherer: prometheus.NewRegistry(), Now: h.opts.Now}
	}
	if IsBare(r) {
		return bareStats(w, r, source)
	}
	points, err := source.Points()
	if err != nil {
		return err
	}
	return respond(w, http.StatusOK, append([]stats.Point{}, points...))
}

// bareStats answers /stats: lines, or with the parameter json an array of them.
func bareStats(w http.ResponseWriter, r *http.Request, source *stats.Source) error {
	text, err := source.Lines()
	switch {
	case err != nil:
		return err
	case !r.URL.Query().Has("json"):
		return respondText(w, string(text))
	}
	return respond(w, http.StatusOK, slices.Collect(strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n")))
}

// respondText answers with text.
func respondText(w http.ResponseWriter, text string) error {
	response := receiver.Text(http.StatusOK, strings.TrimSuffix(text, "\n"))
	response.Write(w)
	return nil
}

// tree answers like a server without trees.
func (h *Handlers) tree(w http.ResponseWriter, r *http.Request) error {
	var document struct {
		TreeID word `json:"treeId"`
	}
	if r.Body != nil && r.Body != http.NoBody {
		if _, err := h.body(w, r, &document); err != nil {
			return err
		}
	}
	id := string(document.TreeID)
	for _, name := range []string{"treeid", "tree_id"} {
		if text := r.URL.Query().Get(name); text != "" {
			id = text
		}
	}
	if id != "" {
		if n, err := strconv.Atoi(id); err != nil || n < 0 || n > 65535 {
			return badRequest("Unable to parse 'tree_id' value")
		}
	}
	switch strings.ToLower(strings.Trim(strings.TrimPrefix(r.URL.Path, "/api/tree"), "/")) {
	case "":
		if id != "" && id != "0" {
			return notFound("Unable to locate tree: %s", id)
		}
		switch r.Method {
		case http.MethodGet:
			return respond(w, http.StatusOK, []string{})
		case http.MethodDelete:
			return notFound("Unable to locate tree: 0")
		}
		return &failure{status: http.StatusNotImplemented, message: "This server has no trees"}
	case "branch":
		if branch := r.URL.Query().Get("branch"); branch != "" {
			return notFound("Unable to locate branch '%s'", opentsdb.Shown(branch))
		}
		if id == "" || id == "0" {
			return badRequest("Missing or invalid branch and tree IDs")
		}
		return notFound("Unable to locate branch '%s' for tree '%s'", id, id)
	case "rule", "rules", "test", "collisions", "notmatched":
		if id == "" {
			id = "0"
		}
		return notFound("Unable to locate tree: %s", id)
	}
	return notFound("This endpoint is not supported")
}
