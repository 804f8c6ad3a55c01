import { sizeText } from '../messages/index.ts'
import { grid as text } from '../messages/grid.ts'
import { FILE_BYTES_MAX, FILE_PIXELS_MAX, PICTURE_BYTES_MAX, PICTURE_SIDE, PICTURE_SIDE_MAX, SVG_BYTES_MAX } from './picture-bounds.ts'
import { readRaster } from './raster.ts'
import { shrunk, within } from './shrink.ts'

/** A picture is not usable; `message` is a sentence for people. */
export class PictureError extends Error {}

/** Makes a sprite's picture from a file. Only pixels are kept, no camera metadata. */
export async function pictureOf(file: File): Promise<Blob> {
  const { name } = file
  const isSvg = file.type === 'image/svg+xml'
  const bytesMax = isSvg ? SVG_BYTES_MAX : FILE_BYTES_MAX
  if (file.size > bytesMax) {
    throw new PictureError(text('fileHeavy', { name, size: sizeText(file.size), most: sizeText(bytesMax) }))
  }
  let drawn: Drawn
  try {
    drawn = isSvg ? await drawnSvg(file) : await drawnRaster(file)
  } catch (error) {
    if (error instanceof PictureError) throw error
    throw new PictureError(text('unreadable', { name }))
  }
  const canvas = document.createElement('canvas')
  try {
    const picture = await shrunk((side, type, quality) => encoded(canvas, drawn, side, type, quality))
    if (picture !== null) return picture
  } catch {
    // A drawing that embeds a document can be shown, but not read back.
  } finally {
    drawn.close()
  }
  throw new PictureError(text('unshrinkable', { name }))
}

/** Validates a received picture and returns it under its real type; rejects when it may not be shown. */
export async function checkedPicture(picture: Blob): Promise<Blob> {
  if (picture.size > PICTURE_BYTES_MAX) throw new PictureError(text('heavy', { size: sizeText(PICTURE_BYTES_MAX) }))
  const head = readRaster(new Uint8Array(await picture.arrayBuffer()))
  if (head === null) throw new PictureError(text('noRaster'))
  if (head.isMoving) throw new PictureError(text('moving'))
  const tooLarge = ({ width, height }: { width: number; height: number }) =>
    width < 1 || height < 1 || width > PICTURE_SIDE_MAX || height > PICTURE_SIDE_MAX
  if (tooLarge(head)) throw new PictureError(text('large', { count: PICTURE_SIDE_MAX }))
  const checked = new Blob([picture], { type: head.type })
  const bitmap = await createImageBitmap(checked).catch(() => {
    throw new PictureError(text('damaged'))
  })
  const isOver = tooLarge(bitmap)
  bitmap.close()
  if (isOver) throw new PictureError(text('lying'))
  return checked
}

interface Drawn {
  readonly source: CanvasImageSource
  readonly width: number
  readonly height: number
  /** Vectors can be drawn at any size. */
  readonly isVector: boolean
  close(): void
}

async function drawnRaster(file: File): Promise<Drawn> {
  const head = readRaster(new Uint8Array(await file.arrayBuffer()))
  if (head !== null && head.width * head.height > FILE_PIXELS_MAX) {
    throw new PictureError(text('pixels', { name: file.name, width: head.width, height: head.height }))
  }
  const bitmap = await createImageBitmap(file)
  return { source: bitmap, width: bitmap.width, height: bitmap.height, isVector: false, close: () => bitmap.close() }
}

/** As an image, an SVG runs no script and loads nothing. */
async function drawnSvg(file: File): Promise<Drawn> {
  const address = URL.createObjectURL(new Blob([file], { type: 'image/svg+xml' }))
  const img = new Image()
  img.src = address
  const close = () => URL.revokeObjectURL(address)
  try {
    await img.decode()
    if (img.naturalWidth < 1 || img.naturalHeight < 1) throw new Error('a drawing without a size')
  } catch (error) {
    close()
    throw error
  }
  return { source: img, width: img.naturalWidth, height: img.naturalHeight, isVector: true, close }
}

function encoded(canvas: HTMLCanvasElement, drawn: Drawn, side: number, type: string, quality?: number): Promise<Blob> {
  const large = drawn.isVector ? PICTURE_SIDE / Math.max(drawn.width, drawn.height) : 1
  // Setting the size clears a canvas.
  Object.assign(canvas, within(side, drawn.width * large, drawn.height * large))
  const context = canvas.getContext('2d')
  if (context === null) throw new Error('a browser without a canvas')
  context.imageSmoothingQuality = 'high'
  context.drawImage(drawn.source, 0, 0, canvas.width, canvas.height)
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob === null ? reject(new Error('nothing was written')) : resolve(blob)), type, quality)
  })
}
