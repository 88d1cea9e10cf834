-- Words are looked for among the newest entries first. The index holds blocks of 16,384 entries, so that a search for a
-- common word reads those of one block, and not all that it ever stood in.
DROP INDEX gram_grams;
CREATE INDEX gram_grams ON gram USING gin (ns, session, (seq >> 14), grams) WITH (gin_pending_list_limit = 512);
