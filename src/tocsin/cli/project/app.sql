-- An air quality watch. You may run it again after an addition: what exists already stays unchanged.

-- What rarely changes and is not part of a measurement.
CREATE DATASET IF NOT EXISTS Stations (
  station string NOT NULL,
  street string NOT NULL,
  city string NOT NULL
) PRIMARY KEY station;

UPSERT INTO Stations VALUES
  ('h1', 'Harbour Street', 'Helsinki'),
  ('h2', 'Market Square', 'Helsinki'),
  ('t1', 'Old Bridge', 'Turku'),
  ('t2', 'Castle Hill', 'Turku');

CREATE DATASET IF NOT EXISTS Advice (least int NOT NULL, below int NOT NULL, text string NOT NULL) PRIMARY KEY least;

UPSERT INTO Advice VALUES
  (0, 25, 'enjoy the day'),
  (25, 50, 'take it easy if you are sensitive'),
  (50, 1000, 'stay inside and close the windows');

-- What stations publish. ACTIVE lets channels ask which records are new.
CREATE ACTIVE DATASET IF NOT EXISTS Measurements (
  station string NOT NULL,
  pm25 double NOT NULL,
  at timestamp
);

CREATE FEED IF NOT EXISTS MeasurementFeed;
CONNECT FEED MeasurementFeed TO DATASET Measurements;
START FEED MeasurementFeed;

-- What people subscribe to: new measurements above a limit in their city, with the street and an advice.
CREATE CONTINUOUS CHANNEL IF NOT EXISTS BadAir(city string, above double) {
  SELECT s.street, m.pm25, m.at, a.text AS advice
  FROM Measurements m
  JOIN Stations s ON s.station = m.station
  LEFT JOIN Advice a ON a.least <= m.pm25 AND m.pm25 < a.below
  WHERE is_new(m) AND s.city = city AND m.pm25 > above
};
