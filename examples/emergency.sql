-- The emergency application notifies people of emergencies of a kind, at a place, or near their own location.
-- Two of the seven channels add the nearest shelters.
--
--     tocsin sql examples/emergency.sql
--
-- A query is Spark SQL. Around it are the statements of Big Active Data: datasets, feeds, functions and channels.

-- Datasets ------------------------------------------------------------------------------------------------------------

-- The location of each user. A dataset with a key holds the latest record of each key: a new location replaces the old one.
CREATE ACTIVE DATASET UserLocations (
  user_id string NOT NULL,
  lat     double NOT NULL,
  lon     double NOT NULL,
  time    timestamp
) PRIMARY KEY user_id;

-- Every report. A dataset without a key only grows. ACTIVE lets channels ask which records are new.
CREATE ACTIVE DATASET EmergencyReports (
  report_id string NOT NULL,
  kind      string NOT NULL,
  location  string,
  lat       double NOT NULL,
  lon       double NOT NULL,
  severity  int,
  message   string,
  time      timestamp
);

-- The shelters are loaded once: LOAD DATASET Shelters FROM 'shelters.json' FORMAT json
CREATE DATASET Shelters (
  shelter_id string NOT NULL,
  name       string NOT NULL,
  location   string,
  lat        double NOT NULL,
  lon        double NOT NULL,
  capacity   int
) PRIMARY KEY shelter_id;

-- Feeds ---------------------------------------------------------------------------------------------------------------

-- Publishers post records to a feed: POST /feeds/EmergencyReportFeed, or  tocsin pub EmergencyReportFeed reports.ndjson
CREATE FEED UserLocationFeed;
CONNECT FEED UserLocationFeed TO DATASET UserLocations;
START FEED UserLocationFeed;

CREATE FEED EmergencyReportFeed;
CONNECT FEED EmergencyReportFeed TO DATASET EmergencyReports;
START FEED EmergencyReportFeed;

-- Channels ------------------------------------------------------------------------------------------------------------
--
-- A channel is a query with parameters that runs repeatedly. Each subscription gives values to the parameters, and one
-- run answers all subscriptions at once. is_new(r) selects the reports that arrived since the last run of the channel.
-- In a body, the bare name of a parameter means the parameter; write a column of the same name with its table: r.kind.

-- 1. Emergencies of one kind, anywhere.
CREATE FUNCTION emergencies_of_type(kind string) {
  SELECT r.report_id, r.kind, r.location, r.lat, r.lon, r.severity, r.message, r.time
  FROM EmergencyReports r
  WHERE is_new(r) AND r.kind = kind
};
CREATE REPETITIVE CHANNEL EmergenciesOfType USING emergencies_of_type@1 PERIOD duration("PT10S");

-- 2. Emergencies of every kind in one part of the city.
CREATE FUNCTION emergencies_at_location(location string) {
  SELECT r.report_id, r.kind, r.location, r.lat, r.lon, r.severity, r.message, r.time
  FROM EmergencyReports r
  WHERE is_new(r) AND r.location = location
};
CREATE REPETITIVE CHANNEL EmergenciesAtLocation USING emergencies_at_location@1 PERIOD duration("PT20S");

-- 3. Emergencies of one kind, or of 'any', within two kilometres of the user's current location.
CREATE FUNCTION emergencies_near_me(kind string, user string) {
  SELECT r.report_id, r.kind, r.location, r.lat, r.lon, r.severity, r.message, r.time,
         round(distance(r.lat, r.lon, u.lat, u.lon)) AS metres
  FROM EmergencyReports r
  JOIN UserLocations u ON within(r.lat, r.lon, u.lat, u.lon, 2000)
  WHERE is_new(r) AND u.user_id = user AND (kind = 'any' OR r.kind = kind)
};
CREATE REPETITIVE CHANNEL EmergenciesNearMe USING emergencies_near_me@2 PERIOD duration("PT10S");

-- 4. The same for exactly one kind.
CREATE FUNCTION emergencies_of_type_near_me(kind string, user string) {
  SELECT r.report_id, r.kind, r.location, r.lat, r.lon, r.severity, r.message, r.time,
         round(distance(r.lat, r.lon, u.lat, u.lon)) AS metres
  FROM EmergencyReports r
  JOIN UserLocations u ON within(r.lat, r.lon, u.lat, u.lon, 2000)
  WHERE is_new(r) AND u.user_id = user AND r.kind = kind
};
CREATE REPETITIVE CHANNEL EmergenciesOfTypeNearMe USING emergencies_of_type_near_me@2 PERIOD duration("PT10S");

-- 5. Emergencies of one kind in one part of the city.
CREATE FUNCTION emergencies_of_type_at_location(kind string, location string) {
  SELECT r.report_id, r.kind, r.location, r.lat, r.lon, r.severity, r.message, r.time
  FROM EmergencyReports r
  WHERE is_new(r) AND r.kind = kind AND r.location = location
};
CREATE REPETITIVE CHANNEL EmergenciesOfTypeAtLocation USING emergencies_of_type_at_location@2 PERIOD duration("PT30S");

-- 6. Channel 4, enriched with the three shelters nearest to the user: one array in each notification, nearest first,
--    empty if there are no shelters.
CREATE FUNCTION emergencies_of_type_with_shelter_near_me(kind string, user string) {
  SELECT r.report_id, r.kind, r.location, r.lat, r.lon, r.severity, r.message, r.time,
         round(distance(r.lat, r.lon, u.lat, u.lon)) AS metres,
         sort_array(collect_list(struct(h.metres, h.name, h.location, h.lat, h.lon, h.capacity))
                    FILTER (WHERE h.metres IS NOT NULL)) AS shelters
  FROM EmergencyReports r
  JOIN UserLocations u ON within(r.lat, r.lon, u.lat, u.lon, 2000)
  LEFT JOIN LATERAL (
    SELECT h.name, h.location, h.lat, h.lon, h.capacity, round(distance(h.lat, h.lon, u.lat, u.lon)) AS metres
    FROM Shelters h
    ORDER BY distance(h.lat, h.lon, u.lat, u.lon)
    LIMIT 3
  ) h ON true
  WHERE is_new(r) AND u.user_id = user AND r.kind = kind
  GROUP BY ALL
};
CREATE REPETITIVE CHANNEL EmergenciesOfTypeWithShelterNearMe
  USING emergencies_of_type_with_shelter_near_me@2 PERIOD duration("PT10S");

-- 7. Channel 5, enriched with the three shelters nearest to the emergency.
CREATE FUNCTION emergencies_of_type_at_location_with_shelter(kind string, location string) {
  SELECT r.report_id, r.kind, r.location, r.lat, r.lon, r.severity, r.message, r.time,
         sort_array(collect_list(struct(h.metres, h.name, h.location, h.lat, h.lon, h.capacity))
                    FILTER (WHERE h.metres IS NOT NULL)) AS shelters
  FROM EmergencyReports r
  LEFT JOIN LATERAL (
    SELECT h.name, h.location, h.lat, h.lon, h.capacity, round(distance(h.lat, h.lon, r.lat, r.lon)) AS metres
    FROM Shelters h
    ORDER BY distance(h.lat, h.lon, r.lat, r.lon)
    LIMIT 3
  ) h ON true
  WHERE is_new(r) AND r.kind = kind AND r.location = location
  GROUP BY ALL
};
CREATE REPETITIVE CHANNEL EmergenciesOfTypeAtLocationWithShelter
  USING emergencies_of_type_at_location_with_shelter@2 PERIOD duration("PT30S");
