// Draws docs/images/NAME.svg from pictures/NAME.txt: boxes with arrows between them, in colours that are read on light and dark pages.
// Lines of a source: title TEXT, desc TEXT, size W H, box X Y W H KIND LINE|LINE, arrow X1 Y1 X2 Y2 LABEL, text X Y TEXT.
// With --check nothing is written, and a picture that is not what its source says is an error.
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const sources = fileURLToPath(new URL('pictures/', import.meta.url))
const images = fileURLToPath(new URL('../docs/images/', import.meta.url))
const kinds = { kubeadm: '#326ce5', ccmadm: '#0f7b6c', other: '#57606a', owner: '#a8460b' }
const escape = (text) => text.replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c])
const label = (x, y, text, fill, anchor) => `<text x="${x}" y="${y}" fill="${fill}" text-anchor="${anchor}">${escape(text)}</text>`

function box(x, y, w, h, kind, text, where) {
  if (!kinds[kind]) throw new Error(`${where}: there is no kind ${kind}, only ${Object.keys(kinds).join(', ')}`)
  const lines = text.split('|')
  const first = y + h / 2 + 5 - (lines.length - 1) * 9
  return [`<rect x="${x}" y="${y}" width="${w}" height="${h}" rx="6" fill="${kinds[kind]}"/>`,
    ...lines.map((line, i) => label(x + w / 2, first + i * 18, line, '#ffffff', 'middle'))].join('\n')
}

function arrow(x1, y1, x2, y2, text) {
  const line = `<path d="M${x1} ${y1} L${x2} ${y2}" stroke="#767d86" stroke-width="2" marker-end="url(#head)"/>`
  if (!text) return line
  const middle = [(x1 + x2) / 2, (y1 + y2) / 2]
  const beside = x1 === x2 ? label(x1 + 8, middle[1] + 4, text, '#767d86', 'start') : label(middle[0], y1 - 8, text, '#767d86', 'middle')
  return `${line}\n${beside}`
}

function draw(file) {
  const parts = []
  let title, desc, size
  for (const [i, line] of fs.readFileSync(sources + file, 'utf8').split('\n').entries()) {
    const where = `pictures/${file}:${i + 1}`
    const [word, ...rest] = line.split(' ')
    const numbers = rest.slice(0, 4).map(Number)
    const text = (n) => rest.slice(n).join(' ')
    const known = { title: 0, desc: 0, size: 2, box: 4, arrow: 4, text: 2 }
    if (!line) continue
    if (known[word] === undefined) throw new Error(`${where}: ${JSON.stringify(word)} is none of ${Object.keys(known).join(', ')}`)
    if (numbers.slice(0, known[word]).some(Number.isNaN) || rest.length < known[word]) {
      throw new Error(`${where}: ${word} needs ${known[word]} numbers`)
    }
    if (word === 'title') title = text(0)
    if (word === 'desc') desc = text(0)
    if (word === 'size') size = numbers
    if (word === 'box') parts.push(box(...numbers, rest[4], text(5), where))
    if (word === 'arrow') parts.push(arrow(...numbers, text(4)))
    if (word === 'text') parts.push(label(numbers[0], numbers[1], text(2), '#767d86', 'start'))
  }
  if (!title || !desc || !size) throw new Error(`pictures/${file}: title, desc and size are required`)
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size[0]} ${size[1]}" width="${size[0]}" height="${size[1]}" role="img"
 aria-labelledby="title desc" font-family="system-ui, sans-serif" font-size="14">
<title id="title">${escape(title)}</title>
<desc id="desc">${escape(desc)}</desc>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0 L8 4 L0 8 z" fill="#767d86"/></marker></defs>
${parts.join('\n')}
</svg>
`
}

for (const file of fs.readdirSync(sources).filter((f) => f.endsWith('.txt'))) {
  const image = path.join(images, file.replace(/\.txt$/, '.svg'))
  const svg = draw(file)
  if (!process.argv.includes('--check')) fs.writeFileSync(image, svg)
  else if (!fs.existsSync(image) || fs.readFileSync(image, 'utf8') !== svg) {
    throw new Error(`${image} is not what pictures/${file} says: run node site/pictures.mjs`)
  }
}
