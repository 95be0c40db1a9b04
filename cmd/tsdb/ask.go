package main

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

// refusal is an error that a server answered with.
type refusal struct{ status, text string }

func (e *refusal) Error() string { return e.text }

// askServer sends a form to a path of a server and reads the data of its answer into data, unless that is nil and the answer
// is empty. What the server refuses is a *refusal.
func askServer(ctx context.Context, method, base, path string, form url.Values, data any) error {
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
		return &refusal{resp.Status, answer.Error}
	}
	return nil
}
