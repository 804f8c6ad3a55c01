/** How a file is shown: its kind and its encoding, by its name and its bytes, and HTML that can do nothing. */
export { decoded, declaringOf, encodingOf, isBinary, textIn, type Declaring, type Encoding } from './encoding.ts'
export { kindOf, kindOfName, mediaKind, pictureType, SNIFFED_BYTES, type Kind } from './kind.ts'
export { markupOf, parseBody, parseMarkup, type Markup } from './markup.ts'
export { HTML_BYTES_MAX, showStill, stillDocument } from './still.ts'
