package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"halite/grafana"
)

func main() {
	dir := flag.String("dir", "dashboards", "directory of the JSON files")
	flag.Parse()
	if err := write(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, d := range grafana.Dashboards() {
		text, err := d.JSON()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, d.FileName()), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
