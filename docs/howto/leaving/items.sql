-- The items of DSpace 6 or later, where their files were, and from when everyone may read them
SELECT h.handle, h.resource_id AS item, f.name, f.sequence, f.bitstream, f.public, f.start_date
FROM handle h
LEFT JOIN (
    SELECT ib.item_id, name.text_value AS name, b.sequence_id AS sequence, b.uuid AS bitstream,
           count(p.policy_id) > 0 AS public,
           CASE WHEN bool_and(coalesce(p.start_date > current_date, false))
                THEN min(p.start_date) END AS start_date
    FROM item2bundle ib
    JOIN bundle2bitstream bb ON bb.bundle_id = ib.bundle_id
    JOIN bitstream b ON b.uuid = bb.bitstream_id
    JOIN metadatavalue bundle ON bundle.dspace_object_id = ib.bundle_id
         AND bundle.text_value = 'ORIGINAL'
    JOIN metadatavalue name ON name.dspace_object_id = b.uuid
         AND name.metadata_field_id = bundle.metadata_field_id
    LEFT JOIN resourcepolicy p ON p.dspace_object = b.uuid AND p.action_id = 0
         AND (p.end_date IS NULL OR p.end_date >= current_date)
         AND p.epersongroup_id = (SELECT uuid FROM epersongroup WHERE name = 'Anonymous')
    GROUP BY ib.item_id, name.text_value, b.sequence_id, b.uuid
) f ON f.item_id = h.resource_id
WHERE h.resource_type_id = 2
ORDER BY h.handle, f.sequence;
