package grading

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// ReadLines reads a file of JSON lines, of any length. A line that is no T is an
// error that names it, and so is a last one that ends in the middle: nothing is
// left out.
func ReadLines[T any](path string) ([]T, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, _, cut, err := scan[T](f)
	if err == nil && cut > 0 {
		err = fmt.Errorf("line %d is cut short, the file ends within it: bring the whole file, or remove the line", cut)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// Resume opens a file of JSON lines that this program appends to, made if it is
// missing, and returns what it holds. The half of a line that a killed process
// left at its end is cut off; a whole one without its line break gets it.
func Resume[T any](path string) ([]T, *os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, nil, err
	}
	list, end, _, err := scan[T](f)
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if last := make([]byte, 1); err == nil && end > 0 {
		if _, err = f.ReadAt(last, end-1); err == nil && last[0] != '\n' {
			_, err = f.WriteString("\n")
		}
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return list, f, nil
}

// scan reads the lines, and where the last whole one ends. cut is the number of
// a last line that is not whole; 0 if there is none.
func scan[T any](r io.Reader) (list []T, end int64, cut int, err error) {
	in := bufio.NewReaderSize(r, 1<<20)
	for line := 1; ; line++ {
		text, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, 0, err
		}
		last := err != nil
		if len(bytes.TrimSpace(text)) > 0 {
			var v T
			switch err := json.Unmarshal(text, &v); {
			case err != nil && last:
				return list, end, line, nil
			case err != nil:
				return nil, 0, 0, fmt.Errorf("line %d: %w", line, err)
			}
			list = append(list, v)
		}
		end += int64(len(text))
		if last {
			return list, end, 0, nil
		}
	}
}
