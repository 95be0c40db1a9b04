package program

import "strconv"

// Exit ends the program with a status other than 1. The command has printed its result, so there is no message.
type Exit struct{ Code int }

func (e Exit) Error() string { return "exit status " + strconv.Itoa(e.Code) }
