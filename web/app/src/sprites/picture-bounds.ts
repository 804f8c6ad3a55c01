/** Bytes of a picture that is sent between windows: one block. A larger one is rejected by sender and receiver. */
export const PICTURE_BYTES_MAX = 64 << 10
/** Longer side of a picture that is made here, in pixels. */
export const PICTURE_SIDE = 256
/** Either side of a received picture, in pixels; a larger one is not shown. A few bytes can decode to gigabytes. */
export const PICTURE_SIDE_MAX = 1024
/** Pictures that a tab holds or looks for, each a topic of its connection; beyond it, the least recently used is dropped. */
export const PICTURES_MAX = 32
/** Of these, pictures that were added here. Received pictures never displace them, nor do they displace all received ones. */
export const PICTURES_OF_MINE_MAX = 16
/** Milliseconds between the starts of two searches, so that many pictures do not cause a burst of joins. */
export const SEARCH_INTERVAL = 100
/** Bytes of a dropped file; a larger one is rejected unread. */
export const FILE_BYTES_MAX = 32 << 20
/** The same for SVG, which takes far longer to draw than to read. */
export const SVG_BYTES_MAX = 2 << 20
/** Pixels of a dropped file, as stated in its header; a larger one is rejected. */
export const FILE_PIXELS_MAX = 100_000_000
/** Files that wait to become sprites; further files of a drop are left out, and the person is notified. */
export const FILES_WAITING_MAX = 8
