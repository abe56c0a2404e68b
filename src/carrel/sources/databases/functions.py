"""Allowlist of SQL functions, by database. The functions compute a value from their arguments.

A list of harmful functions is never complete: the next extension or release may add another one. So a function is
rejected unless it is listed here or in the option ``allow_functions``. The listed functions do not read a table, a
file, a setting or another session, do not run SQL in a text, do not wait, and do not list tables, functions or roles.
"""

# ruff: noqa: SIM905

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase

from carrel.sources.databases.failure import StatementRejected

__all__ = [
    "BARE",
    "HARMLESS",
    "KEYWORDS",
    "POSTGRES_TYPES",
    "TABLE_FUNCTIONS",
    "check_functions",
    "is_allowed",
    "not_harmless",
]

#: SQL keywords that may be followed by a parenthesis without being a function call.
KEYWORDS = frozenset(
    """
    select distinct on from where and or not in exists any all some as with recursive materialized over filter within
    group values using join lateral union except intersect case when then else between like ilike rlike regexp similar
    escape is limit offset fetch first next by partition order sets grouping cube rollup having qualify interval row
    array tablesample system bernoulli reservoir pivot unpivot include exclude nulls for replace rename columns cast
    try_cast struct map against separator collate zone into window rows range groups positional cross inner left right
    full outer natural asof anti semi glob match div mod xor binary summarize only end sample percent
    varchar char character nchar nvarchar bpchar decimal numeric dec fixed number float real double int integer tinyint
    smallint mediumint bigint bit varbit varbinary time timetz timestamp timestamptz timestampntz datetime enum set
    unsigned signed year text
    """.split()
)

#: Keywords that call a function without parentheses, and return the logged-in user.
BARE = {
    "postgres": frozenset(
        "current_user session_user user system_user current_role current_catalog current_schema".split()
    ),
    "mysql": frozenset({"current_user", "current_role", "session_user", "system_user"}),
    "duckdb": frozenset("current_user session_user user current_role current_catalog current_schema".split()),
}

#: Functions that all databases have, or that the parser generates for them.
COMMON = """
    abs acos asin atan atan2 avg cast ceil ceiling char_length character_length coalesce concat concat_ws cos cot
    count cume_dist current_date current_time current_timestamp date day degrees dense_rank exp extract first_value
    floor greatest group_concat hex hour if ifnull iif instr json_array json_array_length json_extract json_object
    json_valid lag last_value lcase lead least left length ln localtime localtimestamp log log10 log2 lower lpad
    ltrim max md5 min minute mod month now nth_value ntile nullif octet_length percent_rank pi pow power radians
    random rank regexp_replace repeat replace reverse right round row_number rpad rtrim second sign sin sqrt stddev
    stddev_pop stddev_samp substr substring sum tan translate trim trunc ucase unhex unicode upper var_pop var_samp
    variance year
"""

POSTGRES = """
    acosd acosh age any_value area array_agg array_append array_cat array_dims array_fill array_length array_lower
    array_ndims array_position array_positions array_prepend array_remove array_replace array_reverse array_sample
    array_shuffle array_sort array_to_json array_to_string array_to_tsvector array_upper ascii asind asinh atan2d
    atand atanh bit_and bit_count bit_length bit_or bit_xor bool_and bool_or bound_box box broadcast btrim
    cardinality casefold cbrt center chr circle clock_timestamp convert_from convert_to corr cosd cosh cotd
    covar_pop covar_samp crc32 crc32c date_add date_bin date_part date_subtract date_trunc datemultirange daterange
    decode diagonal diameter div encode enum_first enum_last enum_range erf erfc every factorial family float4
    float8 format gamma gcd gen_random_uuid generate_series generate_subscripts get_bit get_byte height host
    hostmask inet_merge inet_same_family initcap int2 int4 int4multirange int4range int8 int8multirange int8range
    is_normalized isclosed isempty isfinite ishorizontal isopen isparallel isperp isvertical json_agg
    json_array_elements json_array_elements_text json_arrayagg json_build_array json_build_object json_each
    json_each_text json_exists json_extract_path json_extract_path_text json_object_agg json_object_keys
    json_objectagg json_populate_record json_populate_recordset json_query json_scalar json_serialize
    json_strip_nulls json_table json_to_record json_to_recordset json_typeof json_value jsonb jsonb_agg
    jsonb_array_elements jsonb_array_elements_text jsonb_array_length jsonb_build_array jsonb_build_object
    jsonb_each jsonb_each_text jsonb_extract_path jsonb_extract_path_text jsonb_insert jsonb_object jsonb_object_agg
    jsonb_object_keys jsonb_path_exists jsonb_path_exists_tz jsonb_path_match jsonb_path_match_tz jsonb_path_query
    jsonb_path_query_array jsonb_path_query_array_tz jsonb_path_query_first jsonb_path_query_first_tz
    jsonb_path_query_tz jsonb_populate_record jsonb_populate_recordset jsonb_pretty jsonb_set jsonb_set_lax
    jsonb_strip_nulls jsonb_to_record jsonb_to_recordset jsonb_typeof justify_days justify_hours justify_interval
    lcm lgamma lower_inc lower_inf lseg make_date make_interval make_time make_timestamp make_timestamptz masklen
    merge_action min_scale mode multirange netmask network normalize npoints num_nonnulls num_nulls nummultirange
    numnode numrange overlaps overlay parse_ident path pclose percentile_cont percentile_disc pg_column_size
    pg_size_bytes pg_size_pretty phraseto_tsquery plainto_tsquery point polygon popen position querytree quote_ident
    quote_literal quote_nullable radius random_normal range_agg range_intersect_agg range_merge regexp_count
    regexp_instr regexp_like regexp_match regexp_matches regexp_split_to_array regexp_split_to_table regexp_substr
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy row_to_json scale
    set_bit set_byte set_masklen setweight sha224 sha256 sha384 sha512 sind sinh slope split_part starts_with
    statement_timestamp string_agg string_to_array string_to_table strip strpos tand tanh text timeofday timezone
    to_ascii to_bin to_char to_date to_hex to_json to_jsonb to_number to_oct to_timestamp to_tsquery to_tsvector
    transaction_timestamp trim_array trim_scale ts_delete ts_filter ts_headline ts_rank ts_rank_cd tsmultirange
    tsquery_phrase tsrange tstzmultirange tstzrange tsvector_to_array unistr unnest upper_inc upper_inf
    uuid_extract_timestamp uuid_extract_version uuidv4 uuidv7 websearch_to_tsquery width width_bucket xmlagg
    xmlattributes xmlcomment xmlconcat xmlelement xmlexists xmlforest xmlparse xmlpi xmlserialize xmltable xpath
    xpath_exists
"""

SQLITE = """
    acosh asinh atanh bm25 ceiling changes char concat cosh current_date current_time current_timestamp
    datetime format fts5 glob highlight json json_each json_error_position json_group_array json_group_object
    json_insert json_patch json_pretty json_quote json_remove json_replace json_set json_tree json_type jsonb
    jsonb_array jsonb_each jsonb_extract jsonb_group_array jsonb_group_object jsonb_insert jsonb_object jsonb_patch
    jsonb_remove jsonb_replace jsonb_set jsonb_tree julianday like likelihood likely match matchinfo median
    nth_value offsets percentile percentile_cont percentile_disc printf quote randomblob rtreecheck sinh snippet
    soundex strftime string_agg subtype tanh time timediff total typeof unistr unistr_quote unixepoch unlikely
    zeroblob
"""

MYSQL = """
    add_months addate adddate addtime aes_decrypt aes_encrypt any_value ascii bin bin_to_uuid bit_and bit_count
    bit_length bit_or bit_xor char charset chr coercibility collation column_get compress conv convert convert_tz
    crc32 curdate curtime date_add date_format date_sub datediff dayname dayofmonth dayofweek dayofyear decode elt
    encode export_set extractvalue field find_in_set format format_pico_time from_base64 from_days from_unixtime
    grouping inet6_aton inet6_ntoa inet_aton inet_ntoa insert interval is_ipv4 is_ipv4_compat is_ipv4_mapped is_ipv6
    is_uuid isnull json_array_append json_array_insert json_array_intersect json_arrayagg json_compact json_contains
    json_contains_path json_depth json_detailed json_equals json_exists json_insert json_keys json_length json_loose
    json_merge json_merge_patch json_merge_preserve json_normalize json_object_filter_keys json_object_to_array
    json_objectagg json_overlaps json_pretty json_query json_quote json_remove json_replace json_schema_valid
    json_search json_set json_storage_size json_table json_type json_unquote json_value last_day linestring locate
    make_set makedate maketime match median microsecond mid monthname natural_sort_key nvl nvl2 oct octet_length ord
    percentile_cont percentile_disc period_add period_diff point polygon position quarter quote rand random_bytes
    regexp_instr regexp_like regexp_substr sec_to_time sformat sha sha1 sha2 soundex space st_area st_asbinary
    st_asgeojson st_astext st_aswkt st_buffer st_centroid st_contains st_crosses st_difference st_dimension
    st_disjoint st_distance st_distance_sphere st_endpoint st_envelope st_equals st_geomfromgeojson st_geomfromtext
    st_geomfromwkb st_intersection st_intersects st_isclosed st_isempty st_issimple st_isvalid st_latitude st_length
    st_linefromtext st_longitude st_numpoints st_overlaps st_pointfromtext st_pointn st_polygonfromtext st_srid
    st_startpoint st_touches st_union st_within st_x st_y std str_to_date strcmp subdate substring_index subtime
    sysdate time time_format time_to_sec timediff timestamp timestampadd timestampdiff to_base64 to_char to_date
    to_days to_number to_seconds truncate uncompress uncompressed_length unix_timestamp updatexml utc_date utc_time
    utc_timestamp uuid uuid_short uuid_to_bin values week weekday weekofyear weight_string yearweek
"""

DUCKDB = """
    acosh age aggregate ago any_value apply approx_count_distinct approx_quantile approx_top_k arbitrary arg_max
    arg_max_null arg_min arg_min_null argmax argmin array_agg array_aggr array_aggregate array_append array_apply
    array_cat array_concat array_contains array_cosine_distance array_cosine_similarity array_cross_product
    array_distance array_distinct array_dot_product array_extract array_filter array_grade_up array_has
    array_has_all array_has_any array_indexof array_inner_product array_intersect array_length
    array_negative_dot_product array_negative_inner_product array_pop_back array_pop_front array_position
    array_prepend array_push_back array_push_front array_reduce array_resize array_reverse array_reverse_sort
    array_select array_slice array_sort array_to_json array_to_string array_transform array_unique array_value
    array_where array_zip ascii asinh atanh bar base64 bin bit_and bit_count bit_length bit_or bit_position bit_xor
    bitstring bitstring_agg bool_and bool_or cardinality cbrt century chr combine contains corr cosh count_if
    count_star countif covar_pop covar_samp damerau_levenshtein date_add date_diff date_part date_sub date_trunc
    datediff datepart datesub datetrunc dayname dayofmonth dayofweek dayofyear days_in_month decade decode editdist3
    element_at encode ends_with entropy enum_code enum_first enum_last enum_range enum_range_boundary epoch epoch_ms
    epoch_ns epoch_us equi_width_bins era even factorial favg fdiv fill filter first flatten fmod format
    format_bytes formatreadabledecimalsize formatreadablesize from_base64 from_binary from_hex from_json
    from_json_strict fsum gamma gcd gen_random_uuid generate_series generate_subscripts geomean geometric_mean
    get_bit get_current_time get_current_timestamp grade_up greatest_common_divisor hamming hash histogram
    histogram_exact is_histogram_other_bin isfinite isinf isnan isodow isoyear jaccard jaro_similarity
    jaro_winkler_similarity json json_contains json_deep_merge json_each json_exists json_extract_path
    json_extract_path_text json_extract_string json_group_array json_group_object json_group_structure json_insert
    json_keys json_merge_patch json_pretty json_quote json_remove json_replace json_set json_strip_nulls
    json_structure json_transform json_transform_strict json_tree json_type json_value julian kahan_sum kurtosis
    kurtosis_pop last last_day lcm least_common_multiple left_grapheme len length_grapheme levenshtein lgamma list
    list_aggr list_aggregate list_any_value list_append list_apply list_approx_count_distinct list_avg list_bit_and
    list_bit_or list_bit_xor list_bool_and list_bool_or list_cat list_concat list_contains list_cosine_distance
    list_cosine_similarity list_count list_distance list_distinct list_dot_product list_element list_entropy
    list_extract list_filter list_first list_grade_up list_has list_has_all list_has_any list_histogram list_indexof
    list_inner_product list_intersect list_kurtosis list_last list_mad list_max list_median list_min list_mode
    list_negative_dot_product list_negative_inner_product list_pack list_position list_prepend list_product
    list_reduce list_resize list_reverse list_reverse_sort list_select list_sem list_skewness list_slice list_sort
    list_stddev_pop list_stddev_samp list_string_agg list_sum list_transform list_unique list_value list_var_pop
    list_var_samp list_where list_zip listagg lttb mad make_date make_time make_timestamp make_timestamp_ms
    make_timestamp_ns make_timestamptz map_concat map_contains map_contains_entry map_contains_value map_entries
    map_extract map_extract_value map_from_entries map_keys map_values max_by md5_number mean median microsecond
    millennium millisecond min_by mismatches mode monthname nanosecond nextafter nfc_normalize normalized_interval
    ord overlay parse_dirname parse_dirpath parse_filename parse_formatted_bytes parse_path percentile_cont
    percentile_disc pg_typeof position prefix printf product quantile quantile_cont quantile_disc quarter range
    rank_dense reduce regexp_escape regexp_extract regexp_extract_all regexp_full_match regexp_matches
    regexp_split_to_array regexp_split_to_table regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
    regr_sxx regr_sxy regr_syy repeat_row reservoir_quantile right_grapheme round_even roundbankers row_to_json sem
    set_bit sha1 sha256 signbit sinh skewness split split_part starts_with str_split str_split_regex strftime
    string_agg string_split string_split_regex string_to_array strip_accents strlen strpos strptime struct_concat
    struct_contains struct_extract struct_extract_at struct_has struct_indexof struct_insert struct_keys struct_pack
    struct_position struct_update struct_values substring_grapheme suffix sumkahan tanh time_bucket timezone
    timezone_hour timezone_minute to_base to_base64 to_binary to_centuries to_days to_decades to_hex to_hours
    to_json to_microseconds to_millennia to_milliseconds to_minutes to_months to_quarters to_seconds to_timestamp
    to_weeks to_years today transaction_timestamp try_strptime typeof unbin union_extract union_tag union_value
    unnest unpivot_list url_decode url_encode uuid uuid_extract_timestamp uuid_extract_version uuidv4 uuidv7
    variant_extract variant_typeof wavg week weekday weekofyear weighted_avg xor yearweek
"""

HARMLESS = {
    "postgres": frozenset((COMMON + POSTGRES).split()),
    "sqlite": frozenset((COMMON + SQLITE + "-> ->>").split()),
    "mysql": frozenset((COMMON + MYSQL).split()),
    "duckdb": frozenset((COMMON + DUCKDB).split()),
}
"""Names of harmless functions in lower case, by dialect."""

#: Functions that are allowed in place of a table; in that position, other functions may read tables or files.
TABLE_FUNCTIONS = {
    "duckdb": frozenset({"range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree"}),
    "sqlite": frozenset({"json_each", "json_tree", "jsonb_each", "jsonb_tree", "generate_series"}),
}

#: PostgreSQL types whose input functions read only the text.
POSTGRES_TYPES = frozenset(
    """
    array bigint bit bool boolean box bpchar bytea char character cidr circle date datemultirange daterange dec decimal
    double float float4 float8 inet int int2 int4 int4multirange int4range int8 int8multirange int8range integer
    interval json jsonb jsonpath line lseg macaddr macaddr8 money multirange name numeric nummultirange numrange path
    point polygon real smallint text time timestamp timestamptz timetz tsmultirange tsquery tsrange tstzmultirange
    tstzrange tsvector uuid varbit varchar xml year hstore citext ltree vector halfvec geometry geography
    """.split()
)

DEFAULT_SCHEMAS = ("public.", "main.")


def is_allowed(name: str, allowed: Collection[str]) -> bool:
    """Return whether the option ``allow_functions`` matches a name, with or without its schema (``*``: any text)."""
    name = name.lower()
    names = {name, *(name.removeprefix(schema) for schema in DEFAULT_SCHEMAS)}
    return any(fnmatchcase(known, pattern.lower()) for pattern in allowed for known in names)


def check_functions(names: Collection[str], dialect: str, allowed: Collection[str]) -> None:
    """Check that functions, given by their names in lower case, are harmless or allowed.

    Raises:
        StatementRejected: a function is neither harmless nor allowed.
    """
    for name in sorted(names):
        if name not in HARMLESS[dialect] | KEYWORDS and not is_allowed(name, allowed):
            raise not_harmless(name)


def not_harmless(name: str) -> StatementRejected:
    """Return the error for a function that is not allowed."""
    return StatementRejected(
        f"the function {name[:200]} is not allowed: it is not known to be harmless. "
        "The operator of the server can allow it with the option allow_functions"
    )
