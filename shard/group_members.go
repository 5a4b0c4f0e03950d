package shard

// GroupMembers is how many members a group has that the shard coordinates.
type GroupMembers struct {
	Group   string
	Members int
}

// groupMembers are the groups of all coordinators, the first by name.
func groupMembers(coordinators []*coordinator) []GroupMembers {
	total := 0
	for _, c := range coordinators {
		total += len(c.sorted)
	}
	next := make([]int, len(coordinators))
	list := make([]GroupMembers, 0, min(total, GroupsShownMax))
	for len(list) < cap(list) {
		first := -1
		for i, c := range coordinators {
			if next[i] < len(c.sorted) && (first < 0 || c.sorted[next[i]] < coordinators[first].sorted[next[first]]) {
				first = i
			}
		}
		c := coordinators[first]
		e := c.byName[c.sorted[next[first]]]
		next[first]++
		list = append(list, GroupMembers{e.Name, len(e.Members)})
	}
	return list
}
