package program

import (
	"context"
	"io"
)

// Command runs a sub-command until it ends or a signal cancels ctx. It writes its result to w.
type Command func(ctx context.Context, w io.Writer) error

// Commands holds sub-commands by their full name.
type Commands map[string]Command
