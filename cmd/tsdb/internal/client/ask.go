package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// answerBytesMax bounds what commands read of a server's answer.
const answerBytesMax = 64 << 20

// Refusal is the error that a server answered with.
type Refusal struct{ Status, Text string }

func (e *Refusal) Error() string { return e.Text }

// Ask sends a form to a path of a server and decodes the data of its answer into data. data may be nil if the answer is empty.
// The error is a *Refusal if the server refuses the request.
func Ask(ctx context.Context, method, base, path string, form url.Values, data any) error {
	endpoint := strings.TrimSuffix(base, "/") + path
	target, body := endpoint, form.Encode()
	if method == http.MethodGet {
		target, body = endpoint+"?"+body, ""
	}
	req, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("--url: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("is a server running there? %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent && data == nil {
		return nil
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(io.LimitReader(resp.Body, answerBytesMax)).Decode(&answer); err != nil {
		return fmt.Errorf("%s answered %s and no JSON: %w", endpoint, resp.Status, err)
	}
	if answer.Status != "success" {
		return &Refusal{resp.Status, answer.Error}
	}
	return nil
}
