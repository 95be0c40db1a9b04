package influx

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"halite/api/receiver"
)

// Prefix begins the paths of InfluxDB in VictoriaMetrics. They answer like the paths without it.
const Prefix = "/influx"

// internalDatabase is in each list of databases, as in InfluxDB and VictoriaMetrics.
const internalDatabase = "_internal"

// queryResult is the result of one statement in InfluxDB's JSON.
type queryResult struct {
	Statement int           `json:"statement_id"`
	Series    []querySeries `json:"series,omitempty"`
}

type querySeries struct {
	Name    string     `json:"name"`
	Columns []string   `json:"columns"`
	Values  [][]string `json:"values"`
}

// Query returns the handler of /query. Clients create their database and its retention policies before they write. Each
// database exists, and the server's configuration sets the retention, so CREATE does nothing. SHOW DATABASES lists the database
// of the parameter db. Other statements get 400. A form has at most bodyBytesMax bytes; a longer one gets 413.
func Query(bodyBytesMax int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var response receiver.Response
		x := request{}
		r.Body = http.MaxBytesReader(w, r.Body, bodyBytesMax)
		err := r.ParseForm()
		if err == nil {
			err = r.ParseMultipartForm(bodyBytesMax)
		}
		if err != nil && !errors.Is(err, http.ErrNotMultipart) {
			response = x.Refuse(receiver.BodyStatus(err), err)
		} else {
			response = queryResponse(&x, r.Form.Get("q"), r.Form.Get("db"))
		}
		response.Write(w)
	}
}

// queryResponse answers the statements of a query about one database.
func queryResponse(x *request, query, database string) receiver.Response {
	var results []queryResult
	for _, text := range statements(query) {
		result := queryResult{Statement: len(results)}
		words := strings.Fields(strings.ToUpper(text))
		switch words = append(words, "", ""); words[0] + " " + words[1] {
		case "CREATE DATABASE", "CREATE RETENTION":
		case "SHOW DATABASES":
			list := querySeries{Name: "databases", Columns: []string{"name"}, Values: [][]string{{internalDatabase}}}
			if database != "" && database != internalDatabase {
				list.Values = append(list.Values, []string{database})
			}
			result.Series = []querySeries{list}
		default:
			return x.Refuse(http.StatusBadRequest, fmt.Errorf("error parsing query: unknown statement %q; "+
				"this server knows CREATE DATABASE, CREATE RETENTION POLICY and SHOW DATABASES, and has queries in PromQL", text))
		}
		results = append(results, result)
	}
	if results == nil {
		return x.Refuse(http.StatusBadRequest, errors.New(`missing required parameter "q"`))
	}
	body, err := json.Marshal(map[string]any{"results": results})
	if err != nil {
		return x.Refuse(http.StatusInternalServerError, err)
	}
	return receiver.Response{
		Status: http.StatusOK, Type: "application/json", Body: append(body, '\n'), Header: versionHeader(),
	}
}

// statements returns the statements of a query without the semicolons between them. Quoted names may have semicolons.
func statements(query string) (list []string) {
	var quote byte
	begin := 0
	for n := 0; n <= len(query); n++ {
		switch {
		case n == len(query) || quote == 0 && query[n] == ';':
			if text := strings.TrimSpace(query[begin:n]); text != "" {
				list = append(list, text)
			}
			begin = n + 1
		case quote != 0 && query[n] == '\\':
			n++
		case quote == query[n]:
			quote = 0
		case quote == 0 && (query[n] == '"' || query[n] == '\''):
			quote = query[n]
		}
	}
	return list
}
