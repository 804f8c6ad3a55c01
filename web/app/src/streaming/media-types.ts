/** Pictures that are drawn as their bytes arrive. SVG is not among them: it is a document, and is drawn only when it is complete. */
const PICTURE_TYPES = new Set(['image/avif', 'image/gif', 'image/jpeg', 'image/png', 'image/webp'])

/** Whether a picture of this media type can be shown from a stream. */
export function isStreamedPicture(mime: string): boolean {
  return PICTURE_TYPES.has(mime)
}

/** Whether a file of this media type is streamed to a player or an image element. */
export function isStreamedType(mime: string): boolean {
  return /^(?:audio|video)\/[a-z-]+$/.test(mime) || isStreamedPicture(mime)
}
