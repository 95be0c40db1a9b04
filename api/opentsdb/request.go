package opentsdb

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"halite/api/receiver"
	"halite/api/receiver/opentsdb"
)

// failure is an error with its status, in OpenTSDB's words.
type failure struct {
	status           int
	message, details string
}

func (f *failure) Error() string { return f.message }

// NewError returns an error with the status of its response.
func NewError(status int, message string) error { return &failure{status: status, message: message} }

func badRequest(format string, args ...any) error {
	return &failure{status: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &failure{status: http.StatusNotFound, message: fmt.Sprintf(format, args...)}
}

// fail answers an error.
func (h *Handlers) fail(w http.ResponseWriter, err error) {
	var own *failure
	if !errors.As(err, &own) {
		own = &failure{status: h.opts.Status(err), message: err.Error()}
	}
	response := opentsdb.Failure(own.status, own.message, own.details)
	response.Write(w)
}

// respond answers with a document.
func respond(w http.ResponseWriter, status int, document any) error {
	response := opentsdb.JSON(status, document)
	response.Write(w)
	return nil
}

// Method returns the effective method of a request. A GET may set another method by the parameter method_override.
func Method(r *http.Request) (string, error) {
	text, given := r.URL.Query()["method_override"]
	if r.Method != http.MethodGet || !given {
		return r.Method, nil
	}
	switch method := strings.ToUpper(text[0]); method {
	case "":
		return "", &failure{status: http.StatusMethodNotAllowed, message: "Missing method override value"}
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete:
		return method, nil
	}
	return "", &failure{status: http.StatusMethodNotAllowed, message: "Unknown or unsupported method override value"}
}

// required returns a parameter of the URL. It is an error if the parameter is missing.
func required(r *http.Request, name string) (string, error) {
	value := r.URL.Query().Get(name)
	if value == "" {
		return "", badRequest("Missing parameter <code>%s</code>", name)
	}
	return value, nil
}

// whole reads a parameter of the URL that is a whole number, 0 if it is missing.
func whole(r *http.Request, name string) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, badRequest("Unable to convert '%s' to a valid number", name)
	}
	return n, nil
}

// body decodes the body into a document. It returns false if there is none.
func (h *Handlers) body(w http.ResponseWriter, r *http.Request, into any) (bool, error) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.opts.BodyBytesMax))
	if err != nil {
		status, message := receiver.BodyStatus(err), "reading the request body: "+err.Error()
		if status == http.StatusRequestEntityTooLarge {
			message = fmt.Sprintf("request body exceeds the %d bytes limit", h.opts.BodyBytesMax)
		}
		return false, &failure{status: status, message: message}
	}
	if strings.TrimSpace(string(text)) == "" {
		return false, nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return false, &failure{status: http.StatusBadRequest, message: "Unable to parse the given JSON", details: err.Error()}
	}
	return true, nil
}

// mustBody is body for requests that need one.
func (h *Handlers) mustBody(w http.ResponseWriter, r *http.Request, into any) error {
	found, err := h.body(w, r, into)
	if err == nil && !found {
		err = &failure{
			status: http.StatusBadRequest, message: "Missing message content",
			details: "Supply valid JSON formatted data in the body of your request",
		}
	}
	return err
}

// count is a whole number that may be written as a string.
type count int

// UnmarshalJSON implements json.Unmarshaler.
func (n *count) UnmarshalJSON(text []byte) error {
	var w word
	if err := w.UnmarshalJSON(text); err != nil || w == "" {
		return err
	}
	v, err := strconv.Atoi(string(w))
	*n = count(v)
	return err
}

// word is a JSON string, number or boolean as text, because OpenTSDB's clients mix them.
type word string

// UnmarshalJSON implements json.Unmarshaler.
func (t *word) UnmarshalJSON(text []byte) error {
	if len(text) == 0 || text[0] == '{' || text[0] == '[' {
		return errors.New("a string or number is required here")
	}
	if text[0] == '"' {
		var s string
		err := json.Unmarshal(text, &s)
		*t = word(s)
		return err
	}
	if string(text) != "null" {
		*t = word(text)
	}
	return nil
}
