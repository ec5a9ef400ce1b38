// Which part of the city is shown. The city is `aspect` wide and 1 high, north at the top.

const NEAREST = 24;

export class Camera {
  constructor() {
    Object.assign(this, { aspect: 1, width: 1, height: 1, right: 0, u: 0.5, v: 0.5, zoom: 1, version: 0 });
  }

  city(bounds) {
    this.bounds = bounds;
    const shrink = Math.cos((((bounds.north + bounds.south) / 2) * Math.PI) / 180);
    this.aspect = ((bounds.east - bounds.west) * shrink) / (bounds.north - bounds.south);
    this.all();
  }

  /** `right`: pixels that are covered on the right. */
  resize(width, height, right = 0) {
    Object.assign(this, { width, height, right });
    this.stay();
  }

  get middle() {
    return (this.width - this.right) / 2;
  }

  all() {
    Object.assign(this, { u: this.aspect / 2, v: 0.5, zoom: 1 });
    this.version += 1;
  }

  /** Pixels that one city height takes; at zoom 1 all of it is seen, with a little margin. */
  get scale() {
    return Math.min((this.width - this.right) / this.aspect, this.height) * 0.97 * this.zoom;
  }

  x(u) {
    return (u - this.u) * this.scale + this.middle;
  }

  y(v) {
    return (v - this.v) * this.scale + this.height / 2;
  }

  /** Longitude and latitude to the city's coordinates. */
  place(lon, lat) {
    const { west, east, south, north } = this.bounds;
    return [((lon - west) / (east - west)) * this.aspect, (north - lat) / (north - south)];
  }

  /** Pixels of a distance in metres. */
  metres(value) {
    return ((value / 111_195) / (this.bounds.north - this.bounds.south)) * this.scale;
  }

  /** Closer by this factor; what is at (x, y) stays there. */
  closer(factor, x = this.middle, y = this.height / 2) {
    const [u, v] = [this.u + (x - this.middle) / this.scale, this.v + (y - this.height / 2) / this.scale];
    this.zoom = Math.min(NEAREST, Math.max(1, this.zoom * factor));
    this.u = u - (x - this.middle) / this.scale;
    this.v = v - (y - this.height / 2) / this.scale;
    this.stay();
  }

  pan(x, y) {
    this.u -= x / this.scale;
    this.v -= y / this.scale;
    this.stay();
  }

  look(u, v, zoom = this.zoom) {
    Object.assign(this, { u, v, zoom: Math.max(zoom, this.zoom) });
    this.stay();
  }

  /** The city does not leave the window. */
  stay() {
    const [across, down] = [this.middle / this.scale, this.height / this.scale / 2];
    const between = (value, low, high) => (low > high ? (low + high) / 2 : Math.min(high, Math.max(low, value)));
    this.u = between(this.u, Math.min(across, this.aspect / 2), Math.max(this.aspect - across, this.aspect / 2));
    this.v = between(this.v, Math.min(down, 0.5), Math.max(1 - down, 0.5));
    this.version += 1;
  }
}
