/** Bytes of a picture on its way between windows: one block. More is refused, by its maker and by who gets it. */
export const PICTURE_BYTES_MAX = 64 << 10
/** Pixels of the longer side of a picture that is made here. */
export const PICTURE_SIDE = 256
/** Pixels of either side of a picture from elsewhere; over it, it is not shown. A few bytes can spell out gigabytes. */
export const PICTURE_SIDE_MAX = 1024
/** Pictures that a tab holds or looks for, each a topic of its socket; over it, the one least recently used is given up. */
export const PICTURES_MAX = 32
/** Of them, those that were dropped here: strangers' pictures never push these out, nor these all of theirs. */
export const PICTURES_OF_MINE_MAX = 16
/** Milliseconds between two searches begun, so that a rain of pictures is no rain of joins; the others wait their turn. */
export const SEARCH_INTERVAL = 100
/** Bytes of a file that is dropped; over it, it is refused unread. */
export const FILE_BYTES_MAX = 32 << 20
/** The same for a drawing in SVG, which takes far longer to draw than to read. */
export const SVG_BYTES_MAX = 2 << 20
/** Pixels of a file that is dropped, as far as its head tells; over it, it is refused. */
export const FILE_PIXELS_MAX = 100_000_000
/** Files that wait to become sprites; further ones of a drop are left out, and the person is told. */
export const FILES_WAITING_MAX = 8
