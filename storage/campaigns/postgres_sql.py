"""The SQL of campaigns in PostgreSQL: constants, whose values are parameters."""

from collections.abc import Mapping
from typing import Final

from callsheet.storage.campaigns.index import GroupBy, SortBy, TextField

# Without stop words, because `no fee` is not `fee`.
SCHEMA: Final = """
CREATE EXTENSION IF NOT EXISTS vector;
DO $$ BEGIN
  CREATE TEXT SEARCH DICTIONARY callsheet_english (TEMPLATE = snowball, LANGUAGE = english);
  CREATE TEXT SEARCH CONFIGURATION callsheet_english (COPY = simple);
  ALTER TEXT SEARCH CONFIGURATION callsheet_english
    ALTER MAPPING REPLACE simple WITH callsheet_english;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $$;
CREATE TABLE IF NOT EXISTS callsheet_campaigns (
  owner text NOT NULL,
  id text COLLATE "C" NOT NULL,
  record text NOT NULL,
  channel text NOT NULL,
  company text COLLATE "C" NOT NULL,
  brand text NOT NULL,
  product text NOT NULL,
  company_name text NOT NULL,
  product_name text NOT NULL,
  value_props text[] NOT NULL,
  sentiment text NOT NULL,
  visual_style text NOT NULL,
  has_offer boolean NOT NULL,
  captured date NOT NULL,
  spend double precision,
  volume bigint,
  words tsvector NOT NULL,
  model text,
  PRIMARY KEY (owner, id)
);
CREATE TABLE IF NOT EXISTS callsheet_vectors (
  owner text NOT NULL,
  id text COLLATE "C" NOT NULL,
  field text NOT NULL,
  model text NOT NULL,
  vector vector NOT NULL,
  PRIMARY KEY (owner, id, field),
  FOREIGN KEY (owner, id) REFERENCES callsheet_campaigns ON DELETE CASCADE
) PARTITION BY LIST (field);
CREATE TABLE IF NOT EXISTS callsheet_vectors_value_prop
  PARTITION OF callsheet_vectors FOR VALUES IN ('value_prop');
CREATE TABLE IF NOT EXISTS callsheet_vectors_copy
  PARTITION OF callsheet_vectors FOR VALUES IN ('copy');
CREATE TABLE IF NOT EXISTS callsheet_vectors_visual
  PARTITION OF callsheet_vectors FOR VALUES IN ('visual');
-- In the row, where a scan reads them at once, as far as they fit.
ALTER TABLE callsheet_vectors_value_prop ALTER COLUMN vector SET STORAGE MAIN;
ALTER TABLE callsheet_vectors_copy ALTER COLUMN vector SET STORAGE MAIN;
ALTER TABLE callsheet_vectors_visual ALTER COLUMN vector SET STORAGE MAIN;
-- Absent in rows of earlier releases, whose words are other ones.
ALTER TABLE callsheet_campaigns ADD COLUMN IF NOT EXISTS offer_words tsvector;
CREATE INDEX IF NOT EXISTS callsheet_campaigns_without_words ON callsheet_campaigns (owner)
  WHERE offer_words IS NULL;
CREATE INDEX IF NOT EXISTS callsheet_campaigns_offer_words ON callsheet_campaigns USING gin (offer_words);
CREATE INDEX IF NOT EXISTS callsheet_campaigns_words ON callsheet_campaigns USING gin (words);
CREATE INDEX IF NOT EXISTS callsheet_campaigns_captured ON callsheet_campaigns (owner, captured);
"""

_WHERE: Final = """
 WHERE owner = $1
   AND ($2::text[] IS NULL OR channel = ANY ($2))
   AND ($3::text[] IS NULL OR company = ANY ($3) OR brand = ANY ($3))
   AND ($4::text[] IS NULL OR product = ANY ($4))
   AND ($5::text[] IS NULL OR value_props && $5)
   AND ($6::text[] IS NULL OR sentiment = ANY ($6))
   AND ($7::text[] IS NULL OR visual_style = ANY ($7))
   AND ($8::text[] IS NULL OR NOT channel = ANY ($8))
   AND ($9::text[] IS NULL OR NOT (company = ANY ($9) OR brand = ANY ($9)))
   AND ($10::text[] IS NULL OR NOT product = ANY ($10))
   AND ($11::text[] IS NULL OR NOT value_props && $11)
   AND ($12::text[] IS NULL OR NOT sentiment = ANY ($12))
   AND ($13::text[] IS NULL OR NOT visual_style = ANY ($13))
   AND ($14::boolean IS NULL OR has_offer = $14)
   AND ($15::date IS NULL OR captured >= $15)
   AND ($16::date IS NULL OR captured <= $16)
"""
"""Conditions of `postgres.parameters`."""

_FROM: Final = f" FROM callsheet_campaigns {_WHERE}"
COUNT: Final = f"SELECT count(*) {_FROM}"
_PAGE: Final = "id OFFSET $17 LIMIT $18"
FILTER: Final[Mapping[SortBy, str]] = {
    "newest": f"SELECT record {_FROM} ORDER BY captured DESC, {_PAGE}",
    "oldest": f"SELECT record {_FROM} ORDER BY captured, {_PAGE}",
    "company": f"SELECT record {_FROM} ORDER BY company, {_PAGE}",
    "spend": f"SELECT record {_FROM} ORDER BY spend DESC NULLS LAST, {_PAGE}",
    "volume": f"SELECT record {_FROM} ORDER BY volume DESC NULLS LAST, {_PAGE}",
}
EXPORT: Final = f"""
SELECT record, captured, id {_FROM} AND ($17::date IS NULL OR captured < $17 OR captured = $17 AND id > $18)
 ORDER BY captured DESC, id LIMIT $19
"""
"""The campaigns after the one of day $17 and id $18."""
_WORDS: Final[Mapping[TextField, str]] = {"copy": "words", "offer": "offer_words"}
COUNT_WORDS: Final[Mapping[TextField, str]] = {
    field: f"{COUNT} AND {column} @@ to_tsquery('callsheet_english', $17)" for field, column in _WORDS.items()
}
FULL_TEXT: Final[Mapping[TextField, str]] = {
    field: f"""
SELECT record, ts_rank({column}, to_tsquery('callsheet_english', $17), 1) AS score
  {_FROM} AND {column} @@ to_tsquery('callsheet_english', $17)
 ORDER BY score DESC, id LIMIT $18
"""
    for field, column in _WORDS.items()
}
WITHOUT_WORDS: Final = """
SELECT record FROM callsheet_campaigns WHERE owner = $1 AND offer_words IS NULL LIMIT $2
"""
SIMILAR: Final = f"""
WITH scored AS MATERIALIZED (
  SELECT id, vector, -(vector <#> $17::real[]::vector) AS score FROM callsheet_vectors
   WHERE owner = $1 AND field = $18 AND model = $19 AND ($20 OR id IN (SELECT id {_FROM}))
)
SELECT id, score, vector::real[] AS vector FROM scored
 WHERE score > 0 AND score >= $21 * (SELECT max(score) FROM scored)
 ORDER BY score DESC, id LIMIT $22
"""
"""Scores of at least a share of $21 of the best one; $20 says that there are no conditions."""
_SUMS: Final = "count(*), coalesce(sum(spend), 0), coalesce(sum(volume), 0)::bigint"
GROUP: Final[Mapping[GroupBy, str]] = {
    "channel": f"SELECT channel, {_SUMS} {_FROM} GROUP BY 1",
    "company": f"SELECT company_name, {_SUMS} {_FROM} GROUP BY 1",
    "product": f"SELECT product_name, {_SUMS} {_FROM} AND product_name <> '' GROUP BY 1",
    "value_prop": f"SELECT prop, {_SUMS} FROM callsheet_campaigns, unnest(value_props) AS prop"
    f" {_WHERE} GROUP BY 1",
    "sentiment": f"SELECT sentiment, {_SUMS} {_FROM} AND sentiment <> '' GROUP BY 1",
    "visual_style": f"SELECT visual_style, {_SUMS} {_FROM} AND visual_style <> '' GROUP BY 1",
    "month": f"SELECT to_char(captured, 'YYYY-MM'), {_SUMS} {_FROM} GROUP BY 1",
}
"""Rows of value, count, spend and volume, in no order."""

LOCK_SCHEMA: Final = "SELECT pg_advisory_xact_lock(hashtextextended('callsheet campaigns', 1))"
# One library at a time, so that the limit holds.
LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('callsheet campaigns ' || $1, 0))"
SIZE: Final = "SELECT count(*) FROM callsheet_campaigns WHERE owner = $1"
EXISTS: Final = "SELECT EXISTS (SELECT FROM callsheet_campaigns WHERE owner = $1)"
NEWEST: Final = "SELECT max(captured) FROM callsheet_campaigns WHERE owner = $1"
GET: Final = "SELECT record FROM callsheet_campaigns WHERE owner = $1 AND id = ANY ($2::text[])"
DELETE: Final = "DELETE FROM callsheet_campaigns WHERE owner = $1 AND id = ANY ($2::text[]) RETURNING 1"
DELETE_ALL: Final = "DELETE FROM callsheet_campaigns WHERE owner = $1"
PUT: Final = """
INSERT INTO callsheet_campaigns AS stored (owner, id, record, channel, company, brand, product, company_name,
  product_name, value_props, sentiment, visual_style, has_offer, captured, spend, volume, words, offer_words)
SELECT $1, id, record, channel, company, brand, product, company_name, product_name, value_props, sentiment,
  visual_style, has_offer, captured, spend, volume, to_tsvector('callsheet_english', words),
  to_tsvector('callsheet_english', offer_words)
  FROM jsonb_to_recordset($2::jsonb) AS given (id text, record text, channel text, company text, brand text,
    product text, company_name text, product_name text, value_props text[], sentiment text,
    visual_style text, has_offer boolean, captured date, spend double precision, volume bigint, words text,
    offer_words text)
ON CONFLICT (owner, id) DO UPDATE SET record = excluded.record, channel = excluded.channel,
  company = excluded.company, brand = excluded.brand, product = excluded.product,
  company_name = excluded.company_name, product_name = excluded.product_name,
  value_props = excluded.value_props, sentiment = excluded.sentiment, visual_style = excluded.visual_style,
  has_offer = excluded.has_offer, captured = excluded.captured, spend = excluded.spend,
  volume = excluded.volume, words = excluded.words, offer_words = excluded.offer_words,
  model = CASE WHEN stored.record = excluded.record THEN stored.model END
RETURNING (xmax = 0) AS is_new
"""
WITHOUT_VECTORS: Final = """
SELECT record FROM callsheet_campaigns WHERE owner = $1 AND model IS DISTINCT FROM $2 LIMIT $3
"""
# A record that changed meanwhile keeps no vectors of its earlier text.
PUT_VECTORS: Final = """
WITH unchanged AS (
  UPDATE callsheet_campaigns SET model = $4 WHERE owner = $1 AND id = $2 AND record = $3 RETURNING 1
)
INSERT INTO callsheet_vectors (owner, id, field, model, vector)
SELECT $1, $2, field, $4, numbers::vector
  FROM (VALUES ('value_prop', $5::real[]), ('copy', $6::real[]), ('visual', $7::real[]))
    AS given (field, numbers)
 WHERE EXISTS (SELECT FROM unchanged)
ON CONFLICT (owner, id, field) DO UPDATE SET model = excluded.model, vector = excluded.vector
"""
