// The order of the documentation: docs/README.md is its only source. The sidebar, llms.txt and the checks are made from it.
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

export const docs = fileURLToPath(new URL('../docs/', import.meta.url))
const repository = 'https://github.com/ccmadm/ccmadm'

const read = (page) => fs.readFileSync(path.join(docs, page), 'utf8')
const pagesIn = (folder) => fs.readdirSync(path.join(docs, folder)).filter((f) => f.endsWith('.md')).map((f) => `${folder}/${f}`).sort()

// titleOf returns the first heading of a page without its marks of code. The pages of commands begin with one of the second level.
export function titleOf(page) {
  const heading = /^##? (.+)$/m.exec(read(page))
  if (!heading) throw new Error(`docs/${page}: there is no heading "# ..." or "## ...": write one, the sidebar shows it`)
  return heading[1].replaceAll('`', '')
}

// isOldAddress is true for a page that only says where its text went. Its address works, and it is neither listed nor searched.
export const isOldAddress = (page) => /^Moved to \[/.test(read(page))

// groups returns the sections of docs/README.md with their pages in order, each page once, and the groups that are made by folder.
export function groups() {
  const list = []
  const seen = new Set()
  for (const section of read('README.md').split(/^## /m).slice(1)) {
    const pages = []
    for (const [, target] of section.matchAll(/\]\(([^)#\s]+\.md)(?:#[^)]*)?\)/g)) {
      if (target.startsWith('..') || seen.has(target)) continue
      if (!fs.existsSync(path.join(docs, target))) throw new Error(`docs/README.md: there is no ${target}`)
      seen.add(target)
      pages.push(target)
    }
    list.push({ title: section.split('\n', 1)[0], pages })
  }
  const rest = (folder, wanted = () => true) => pagesIn(folder).filter((p) => wanted(p) && !seen.has(p))
  list.push({ title: 'Commands', pages: rest('reference', (p) => p.startsWith('reference/ccmadm_')), folded: true })
  list.push({ title: 'Design', pages: rest('design'), folded: true })
  list.push({ title: 'Decisions', pages: rest('adr'), folded: true })
  list.push({ title: 'Contributing', pages: rest('contributing'), folded: true })
  for (const group of list) for (const page of group.pages) seen.add(page)
  const missing = ['tutorials', 'tasks', 'concepts', 'reference'].flatMap(pagesIn).filter((p) => !seen.has(p))
  if (missing.length) throw new Error(`docs/README.md: no section links to ${missing.join(', ')}: add a link where readers look for it`)
  return list
}

// address is a page's address in the site: a README is its folder's index.
export const address = (page) => page.replace(/README\.md$/, 'index.md')

export const sidebar = () => groups().map(({ title, pages, folded }) => ({
  text: title,
  collapsed: folded ?? false,
  items: pages.map((page) => ({ text: titleOf(page), link: '/' + address(page) })),
}))

// target returns where a link of a page leads to in the site. A file of the repository that is no page is shown by the forge.
export function target(page, href) {
  if (/^([a-z]+:|#|\/)/i.test(href)) return href
  const [file, anchor] = href.split('#')
  const place = path.posix.join(path.posix.dirname(page), file)
  const hash = anchor ? '#' + anchor : ''
  if (!place.startsWith('..') && place.endsWith('.md')) return address(file) + hash
  const full = path.join(docs, place)
  if (!fs.existsSync(full)) throw new Error(`docs/${page}: there is no ${href}: correct the link`)
  const kind = fs.statSync(full).isDirectory() ? 'tree' : 'blob'
  return `${repository}/${kind}/main/${path.posix.join('docs', place)}${hash}`
}

// writeForModels writes llms.txt, which lists the pages, llms-full.txt, which holds them, and each page's Markdown beside its HTML.
export function writeForModels(folder) {
  const intro = read('README.md').split('\n\n')[1].replaceAll('\n', ' ')
  let list = `# ccmadm\n\n> ${intro}\n`
  let full = list
  for (const { title, pages } of groups()) {
    list += `\n## ${title}\n\n`
    for (const page of pages) {
      list += `- [${titleOf(page)}](${page})\n`
      full += `\n<!-- ${page} -->\n\n${read(page)}`
      fs.mkdirSync(path.dirname(path.join(folder, page)), { recursive: true })
      fs.writeFileSync(path.join(folder, page), read(page))
    }
  }
  fs.writeFileSync(path.join(folder, 'llms.txt'), list)
  fs.writeFileSync(path.join(folder, 'llms-full.txt'), full)
}
