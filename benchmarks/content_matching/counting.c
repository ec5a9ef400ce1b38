/* The counting algorithm (Yan and Garcia-Molina 1994, as in Fabret et al. 2001): one index of predicates for each
   column, a counter for each subscription, and a subscription matches when all its predicates were counted.

   Equalities are found by hashing. Ranges are sorted by their lower bound, and the upper bound is compared on the way;
   those with an upper bound only are sorted by it. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LOWEST (INT64_MIN + 1)

typedef struct {
    int64_t low, high;
    int32_t column, subscription;
} Predicate;

typedef struct {
    int32_t first, count;
} Span;

typedef struct {
    int64_t value;
    int32_t column; /* -1: empty */
    Span span;
} Entry;

typedef struct {
    int32_t subscriptions, columns;
    uint64_t mask;
    Entry *entries;           /* equalities by (column, value) */
    int32_t *equal;           /* subscriptions of equalities */
    Predicate *lower, *upper; /* ranges, sorted within their column */
    Span *lower_spans, *upper_spans;
    uint8_t *needed, *counted;
    int64_t bytes;
} Index;

static void *taken(Index *index, size_t size) {
    index->bytes += (int64_t)size;
    return calloc(1, size ? size : 1);
}

static uint64_t hash(int32_t column, int64_t value) {
    uint64_t mixed = (uint64_t)value * 0x9E3779B97F4A7C15u ^ (uint64_t)column * 0xC2B2AE3D27D4EB4Fu;
    return mixed ^ mixed >> 29;
}

static Entry *find(const Index *index, int32_t column, int64_t value) {
    uint64_t at = hash(column, value) & index->mask;
    while (index->entries[at].column >= 0 && (index->entries[at].column != column || index->entries[at].value != value))
        at = (at + 1) & index->mask;
    return &index->entries[at];
}

static int by_low(const void *a, const void *b) {
    const Predicate *one = a, *other = b;
    if (one->column != other->column) return one->column < other->column ? -1 : 1;
    return (one->low > other->low) - (one->low < other->low);
}

static int by_high(const void *a, const void *b) {
    const Predicate *one = a, *other = b;
    if (one->column != other->column) return one->column < other->column ? -1 : 1;
    return (one->high > other->high) - (one->high < other->high);
}

static Span *spans(Index *index, const Predicate *sorted, int32_t count) {
    Span *found = taken(index, sizeof(Span) * (size_t)index->columns);
    for (int32_t i = 0; i < count; i++) {
        Span *span = &found[sorted[i].column];
        if (!span->count++) span->first = i;
    }
    return found;
}

Index *build(const Predicate *predicates, int32_t count, int32_t subscriptions, int32_t columns) {
    Index *index = calloc(1, sizeof(Index));
    int32_t equal = 0, lower = 0, upper = 0;
    index->subscriptions = subscriptions;
    index->columns = columns;
    index->needed = taken(index, (size_t)subscriptions);
    index->counted = taken(index, (size_t)subscriptions);
    for (int32_t i = 0; i < count; i++) {
        const Predicate *each = &predicates[i];
        index->needed[each->subscription]++;
        if (each->low == each->high) equal++;
        else if (each->low == LOWEST) upper++;
        else lower++;
    }
    uint64_t size = 64;
    while (size < 2 * (uint64_t)equal) size *= 2;
    index->mask = size - 1;
    index->entries = taken(index, size * sizeof(Entry));
    for (uint64_t i = 0; i < size; i++) index->entries[i].column = -1;
    index->equal = taken(index, sizeof(int32_t) * (size_t)equal);
    index->lower = taken(index, sizeof(Predicate) * (size_t)lower);
    index->upper = taken(index, sizeof(Predicate) * (size_t)upper);
    lower = upper = 0;
    for (int32_t i = 0; i < count; i++) {
        const Predicate *each = &predicates[i];
        if (each->low == each->high) {
            Entry *entry = find(index, each->column, each->low);
            entry->column = each->column;
            entry->value = each->low;
            entry->span.count++;
        } else if (each->low == LOWEST) index->upper[upper++] = *each;
        else index->lower[lower++] = *each;
    }
    int32_t first = 0;
    for (uint64_t i = 0; i < size; i++) {
        index->entries[i].span.first = first;
        first += index->entries[i].span.count;
        index->entries[i].span.count = 0;
    }
    for (int32_t i = 0; i < count; i++) {
        const Predicate *each = &predicates[i];
        if (each->low == each->high) {
            Entry *entry = find(index, each->column, each->low);
            index->equal[entry->span.first + entry->span.count++] = each->subscription;
        }
    }
    qsort(index->lower, (size_t)lower, sizeof(Predicate), by_low);
    qsort(index->upper, (size_t)upper, sizeof(Predicate), by_high);
    index->lower_spans = spans(index, index->lower, lower);
    index->upper_spans = spans(index, index->upper, upper);
    return index;
}

int64_t bytes(const Index *index) { return index->bytes; }

/* values: one for each column, INT64_MIN for null; found: room for all subscriptions. */
int32_t match(Index *index, const int64_t *values, int32_t *found) {
    uint8_t *counted = index->counted;
    const uint8_t *needed = index->needed;
    int32_t matches = 0;
    memset(counted, 0, (size_t)index->subscriptions);
    for (int32_t column = 0; column < index->columns; column++) {
        const int64_t value = values[column];
        const Entry *entry = find(index, column, value);
        if (entry->column >= 0)
            for (int32_t i = 0; i < entry->span.count; i++) {
                const int32_t each = index->equal[entry->span.first + i];
                if (++counted[each] == needed[each]) found[matches++] = each;
            }
        if (value == INT64_MIN) continue;
        const Span lower = index->lower_spans[column], upper = index->upper_spans[column];
        for (const Predicate *each = index->lower + lower.first, *end = each + lower.count; each < end && each->low <= value; each++)
            if (value <= each->high && ++counted[each->subscription] == needed[each->subscription])
                found[matches++] = each->subscription;
        for (const Predicate *first = index->upper + upper.first, *each = first + upper.count - 1; each >= first && value <= each->high; each--)
            if (++counted[each->subscription] == needed[each->subscription]) found[matches++] = each->subscription;
    }
    return matches;
}

void discard(Index *index) {
    free(index->entries);
    free(index->equal);
    free(index->lower);
    free(index->upper);
    free(index->lower_spans);
    free(index->upper_spans);
    free(index->needed);
    free(index->counted);
    free(index);
}
