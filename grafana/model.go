package grafana

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// SchemaVersion is the version of the Classic schema of the dashboards.
const SchemaVersion = 42

// Dashboard is a dashboard in Grafana's JSON form. Fields without comments have the meaning that Grafana documents.
type Dashboard struct {
	ID            *int        `json:"id"` // null: Grafana assigns it
	UID           string      `json:"uid"`
	Title         string      `json:"title"`
	Description   string      `json:"description"`
	Tags          []string    `json:"tags"`
	SchemaVersion int         `json:"schemaVersion"`
	Version       int         `json:"version"`
	Editable      bool        `json:"editable"`
	GraphTooltip  int         `json:"graphTooltip"` // 1: one crosshair for all panels
	Refresh       string      `json:"refresh"`
	Time          TimeRange   `json:"time"`
	Timezone      string      `json:"timezone"`
	Links         []Link      `json:"links"`
	Templating    Templating  `json:"templating"`
	Annotations   Annotations `json:"annotations"`
	Panels        []Panel     `json:"panels"`
}

// TimeRange is the initial time range of a dashboard.
type TimeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Link is a menu of other dashboards.
type Link struct {
	Title       string   `json:"title"`
	Type        string   `json:"type"`
	Tags        []string `json:"tags"`
	AsDropdown  bool     `json:"asDropdown"`
	IncludeVars bool     `json:"includeVars"`
	KeepTime    bool     `json:"keepTime"`
}

// Templating holds the variables.
type Templating struct {
	List []Variable `json:"list"`
}

// Variable is a choice at the top of a dashboard.
type Variable struct {
	Name       string      `json:"name"`
	Label      string      `json:"label"`
	Type       string      `json:"type"` // "datasource" or "query"
	Datasource *Datasource `json:"datasource,omitempty"`
	// Query is the data source's type, or a VariableQuery.
	Query any `json:"query"`
	// Definition is the query as the editor shows it.
	Definition string `json:"definition,omitempty"`
	Refresh    int    `json:"refresh,omitempty"` // 2: when the time range changes
	Sort       int    `json:"sort,omitempty"`    // 1: by name
	Multi      bool   `json:"multi"`
	IncludeAll bool   `json:"includeAll"`
	AllValue   string `json:"allValue,omitempty"`
	Hide       int    `json:"hide"`
}

// VariableQuery is the query of a variable of type "query".
type VariableQuery struct {
	Query string `json:"query"`
	RefID string `json:"refId"`
}

// Annotations are the marks on graphs.
type Annotations struct {
	List []any `json:"list"`
}

// Datasource names a data source.
type Datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Panel is a graph, a number or the title of a row of them.
type Panel struct {
	ID          int          `json:"id"`
	Type        string       `json:"type"`
	Title       string       `json:"title"`
	Description string       `json:"description,omitempty"`
	GridPos     GridPos      `json:"gridPos"`
	Datasource  *Datasource  `json:"datasource,omitempty"`
	FieldConfig *FieldConfig `json:"fieldConfig,omitempty"`
	Options     any          `json:"options,omitempty"`
	Targets     []Target     `json:"targets,omitempty"`
	Collapsed   *bool        `json:"collapsed,omitempty"` // of a row
	Panels      []Panel      `json:"panels,omitempty"`    // of a row

	// Engine is the only storage engine that has these metrics, or "" if all engines have them. It is not part of the JSON.
	Engine string `json:"-"`
}

// GridPos is a position on the grid of 24 columns.
type GridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// FieldConfig says how values are displayed.
type FieldConfig struct {
	Defaults  FieldDefaults `json:"defaults"`
	Overrides []any         `json:"overrides"`
}

// FieldDefaults say how the values of a panel are displayed.
type FieldDefaults struct {
	Unit       string         `json:"unit"`
	Min        *float64       `json:"min,omitempty"`
	Max        *float64       `json:"max,omitempty"`
	Decimals   *int           `json:"decimals,omitempty"`
	Color      map[string]any `json:"color"`
	Thresholds *Thresholds    `json:"thresholds,omitempty"`
	Custom     map[string]any `json:"custom,omitempty"`
}

// Thresholds colour a number.
type Thresholds struct {
	Mode  string      `json:"mode"`
	Steps []Threshold `json:"steps"`
}

// Threshold is the colour of numbers from Value on. The first threshold has no value.
type Threshold struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

// Target is one query of a panel.
type Target struct {
	RefID        string      `json:"refId"`
	Datasource   *Datasource `json:"datasource"`
	EditorMode   string      `json:"editorMode"`
	Expr         string      `json:"expr"`
	LegendFormat string      `json:"legendFormat"`
	Instant      bool        `json:"instant"`
	Range        bool        `json:"range"`
}

// FileName is the name of the dashboard's JSON file.
func (d *Dashboard) FileName() string { return d.UID + ".json" }

// JSON returns the dashboard as JSON with a newline at the end. The same dashboard gives the same bytes.
func (d *Dashboard) JSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(d); err != nil {
		return nil, fmt.Errorf("dashboard %s: %w", d.UID, err)
	}
	return b.Bytes(), nil
}
