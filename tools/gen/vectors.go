package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// vectors are the golden vectors, as far as the documents show them.
type vectors struct {
	frames  map[string][]frameVector // by file name without its ending
	batches []batchVector
	keys    []keyVector
}

type frameVector struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	Frame   string `json:"frame"`
}

type batchVector struct {
	Name  string `json:"name"`
	Batch string `json:"batch"`
}

type keyVector struct {
	Key        string `json:"key"`
	Hash       uint32 `json:"hash"`
	Partitions uint32 `json:"partitions"`
	Partition  uint32 `json:"partition"`
}

func loadVectors(dir string) (*vectors, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	v := &vectors{frames: map[string][]frameVector{}}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var f struct {
			Frames  []frameVector   `json:"frames"`
			Batches json.RawMessage `json:"batches"`
			Keys    []keyVector     `json:"keys"`
		}
		if err := json.Unmarshal(data, &f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		if len(f.Frames) > 0 {
			v.frames[name] = f.Frames
		}
		v.keys = append(v.keys, f.Keys...)
		if name == "batches" {
			if err := json.Unmarshal(f.Batches, &v.batches); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return v, nil
}

func (v *vectors) frame(file, name string) (frameVector, error) {
	for _, f := range v.frames[file] {
		if f.Name == name {
			return f, nil
		}
	}
	return frameVector{}, fmt.Errorf("no golden frame %q in %s.json", name, file)
}
